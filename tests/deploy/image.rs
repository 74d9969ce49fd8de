//! The recipe of the image. It is read, not built: there may be no container engine.

use std::{collections::BTreeMap, path::Path};

use semver::Version;
use serde_json::Value;
use terraform_driver::providers::Constraint;

use super::overlays::{read_file, repository};

/// The instructions, with continued lines joined and comments left out: word and rest.
fn dockerfile_instructions() -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut open = String::new();
    for line in read_file("deploy/Dockerfile").lines().filter(|line| !line.trim_start().starts_with('#')) {
        let (part, goes_on) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        open.push_str(part);
        if !goes_on && !open.trim().is_empty() {
            let whole = std::mem::take(&mut open);
            let (word, rest) = whole.trim().split_once(' ').unwrap();
            all.push((word.to_owned(), rest.to_owned()));
        }
    }
    all
}

/// The instructions of the last stage: what is shipped.
fn final_stage_instructions() -> Vec<(String, String)> {
    let all = dockerfile_instructions();
    let last = all.iter().rposition(|(word, _)| word == "FROM").unwrap();
    all[last..].to_vec()
}

fn final_stage_instruction(word: &str) -> String {
    let found: Vec<_> =
        final_stage_instructions().into_iter().filter(|(it, _)| it == word).map(|(_, rest)| rest).collect();
    assert_eq!(found.len(), 1, "{word}: {found:?}");
    found[0].clone()
}

#[test]
fn it_does_not_run_as_root_and_is_who_the_pod_says() {
    assert_eq!(final_stage_instruction("USER"), "65532:65532");
    let base: Value = serde_saphyr::from_str(&read_file("deploy/base/deployment.yaml")).unwrap();
    let context = &base["spec"]["template"]["spec"]["securityContext"];
    assert_eq!((&context["runAsUser"], &context["runAsGroup"]), (&65532.into(), &65532.into()));
    // No later instruction changes the user.
    let words: Vec<_> = final_stage_instructions().into_iter().map(|(word, _)| word).collect();
    let user = words.iter().position(|word| word == "USER").unwrap();
    assert!(!words[user..].iter().any(|word| word == "RUN" || word == "COPY"));
}

#[test]
fn what_it_writes_is_in_the_volumes_of_the_pod() {
    assert_eq!(final_stage_instruction("VOLUME"), "/var/lib/capt");
    let env = final_stage_instruction("ENV");
    let env: BTreeMap<&str, &str> = env.split_whitespace().map(|it| it.split_once('=').unwrap()).collect();
    assert_eq!(env["CAPT_DATA"], "/var/lib/capt");
    for written in ["CAPT_DATA", "CAPT_CACHE", "HOME"] {
        assert!(env[written].starts_with("/var/lib/capt") || env[written] == "/tmp", "{written}");
    }
    let copied = final_stage_instructions()
        .into_iter()
        .any(|(word, rest)| word == "COPY" && rest.ends_with(env["CAPT_PROVIDER_MIRROR"]));
    assert!(copied, "the mirror is somewhere else");
}

#[test]
fn it_holds_what_templates_fetch_modules_with() {
    let installs = final_stage_instructions().into_iter().any(|(word, rest)| {
        word == "RUN"
            && ["ca-certificates", "git"].iter().all(|it| rest.split_whitespace().any(|word| word == *it))
    });
    assert!(installs);
}

#[test]
fn an_engine_without_a_checksum_is_refused() {
    let all = dockerfile_instructions();
    // Declared without a default, which would become stale.
    assert!(all.iter().any(|(word, rest)| word == "ARG" && rest == "ENGINE_SHA256"));
    let fetch =
        all.iter().find(|(word, rest)| word == "RUN" && rest.contains("releases.hashicorp.com")).unwrap();
    for needed in ["sha256sum --check --strict", "opentofu/releases", "ENGINE_SHA256 is missing"] {
        assert!(fetch.1.contains(needed), "{needed}");
    }
}

#[test]
fn the_binary_is_built_from_the_lock_file_and_must_be_static() {
    let all = dockerfile_instructions();
    let builds = |text: &str| all.iter().any(|(word, rest)| word == "RUN" && rest.contains(text));
    assert!(builds("cargo build --release --locked -p capt --no-default-features"));
    assert!(builds("readelf -d /capt | grep -q NEEDED"));
    let rust =
        all.iter().find_map(|(word, rest)| rest.strip_prefix("RUST_IMAGE=rust:").filter(|_| word == "ARG"));
    assert!(rust.unwrap().starts_with(&format!("{}-alpine", env!("CARGO_PKG_RUST_VERSION"))));
}

/// What `.dockerignore` lets in.
fn allowed_context_paths() -> Vec<String> {
    read_file(".dockerignore").lines().filter_map(|line| line.strip_prefix('!')).map(str::to_owned).collect()
}

#[test]
fn the_context_holds_what_the_build_reads_and_nothing_else() {
    let ignore = read_file(".dockerignore");
    let first = ignore.lines().find(|line| !line.starts_with('#'));
    assert_eq!(first, Some("*"), "everything stays out unless it is let in");
    let let_in = allowed_context_paths();
    for path in &let_in {
        assert!(repository().join(path).exists(), "{path} is let in and does not exist");
    }
    let is_in = |path: &str| let_in.iter().any(|it| Path::new(path).starts_with(it));
    for path in
        ["Cargo.toml", "Cargo.lock", "src/main.rs", "terraform/modules/vpc/main.tf", "benches/driver/main.rs"]
    {
        assert!(is_in(path), "{path}");
    }
    for member in workspace_members() {
        assert!(is_in(&format!("{member}/Cargo.toml")), "{member}");
    }
    // What the last COPY instructions name comes from the context, too.
    for (word, rest) in dockerfile_instructions().into_iter().filter(|(_, rest)| !rest.contains("--from=")) {
        if word == "COPY" && rest != ". ." {
            assert!(is_in(rest.split_whitespace().next().unwrap()), "{rest}");
        }
    }
    for path in
        [".git/config", ".capt/x", ".cache/x", "target/x", "docs/kinds.md", "examples/quickstart.yaml"]
    {
        assert!(!is_in(path), "{path}");
    }
}

/// The members of the workspace, but for the root.
fn workspace_members() -> Vec<String> {
    let manifest = read_file("Cargo.toml");
    let line = manifest.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    let all: Vec<String> = serde_json::from_str(line).unwrap();
    all.into_iter().filter(|member| member != ".").collect()
}

#[test]
fn the_provider_in_the_image_is_one_that_every_module_takes() {
    let pinned = provider_constraint(&read_file("deploy/providers/main.tf"));
    let pinned = Version::parse(&pinned).expect("one version, not a range");
    for module in ["vpc", "eks", "fargate"] {
        let wanted: Constraint =
            provider_constraint(&read_file(&format!("terraform/modules/{module}/versions.tf")))
                .parse()
                .unwrap();
        assert!(wanted.matches(&pinned), "{module} wants {wanted}, the image has {pinned}");
        let call = format!("../../terraform/modules/{module}");
        assert!(read_file("deploy/providers/main.tf").contains(&call), "{module} is not asked");
    }
}

#[test]
fn the_lock_file_has_the_provider_of_the_image() {
    let lock = read_file("deploy/providers/.terraform.lock.hcl");
    assert!(lock.contains(r#"provider "registry.terraform.io/hashicorp/aws""#));
    let version = provider_constraint(&read_file("deploy/providers/main.tf"));
    assert!(lock.contains(&format!("version     = \"{version}\"")), "{lock}");
    // Of the unpacked package that tests use, and of the packages for all architectures.
    assert!(lock.contains("\"h1:") && lock.matches("\"zh:").count() > 10);
    let all = dockerfile_instructions();
    let mirror = all.iter().find(|(word, rest)| word == "RUN" && rest.contains("providers mirror")).unwrap();
    let (fetched, unpacked) = (mirror.1.find("providers mirror"), mirror.1.find("unzip"));
    let verified = mirror.1.find("-lockfile=readonly");
    assert!(fetched < verified && verified < unpacked, "packages are verified as they come");
    assert!(allowed_context_paths().iter().any(|it| it == "deploy/providers/.terraform.lock.hcl"));
}

/// The version constraint of the one provider that a file requires.
fn provider_constraint(text: &str) -> String {
    let mut lines = text.lines().map(str::trim);
    let line = lines.find_map(|line| line.strip_prefix("version = ")).expect("a version");
    line.trim_matches('"').to_owned()
}
