use proptest::prelude::*;
use rstest::rstest;

use capt_util::byte_size::ByteSize;

use super::*;

fn parsed(address: &str) -> ModuleSourceKind {
    ModuleSource::parse(address).unwrap_or_else(|error| panic!("{address}: {error}")).kind().clone()
}

fn git(url: &str, reference: Option<&str>) -> ModuleSourceKind {
    ModuleSourceKind::Git { url: url.to_owned(), reference: reference.map(str::to_owned) }
}

fn local(address: &str) -> ModuleSource {
    ModuleSource::parse_with_local(address, Path::new("/manifests"), LocalModules::of_the_command_line())
        .unwrap()
}

#[rstest]
#[case(
    "git::https://example.com/infrastructure/modules.git//queue?ref=v1.2.3",
    "https://example.com/infrastructure/modules.git",
    Some("v1.2.3")
)]
#[case("git::https://user:secret@example.com:8443/a.git?depth=1", "https://example.com:8443/a.git", None)]
#[case(
    "git::ssh://git@github.com/org/repo.git//modules/vpc?ref=feature/x",
    "ssh://github.com/org/repo.git",
    Some("feature/x")
)]
#[case("git::git@github.com:org/repo.git", "github.com:org/repo.git", None)]
#[case("git@github.com:org/repo.git?ref=main", "github.com:org/repo.git", Some("main"))]
#[case("github.com/org/repo//sub", "https://github.com/org/repo", None)]
#[case("git::github.com/org/repo", "https://github.com/org/repo", None)]
#[case("git::git://example.com/repo.git", "git://example.com/repo.git", None)]
fn git_addresses(#[case] address: &str, #[case] url: &str, #[case] reference: Option<&str>) {
    assert_eq!(parsed(address), git(url, reference));
}

#[test]
fn other_addresses_that_terraform_fetches() {
    let host = |host: &str| host.to_owned();
    assert_eq!(parsed("https://example.com/vpc.zip"), ModuleSourceKind::Https { host: host("example.com") });
    assert_eq!(
        parsed("https::https://example.com:8443/vpc?archive=zip"),
        ModuleSourceKind::Https { host: host("example.com:8443") }
    );
    assert_eq!(parsed("http://[::1]:8080/vpc.zip"), ModuleSourceKind::Https { host: host("[::1]:8080") });
    assert_eq!(parsed("oci://ghcr.io/org/vpc?tag=1.0"), ModuleSourceKind::Oci { host: host("ghcr.io") });
    assert_eq!(
        parsed("s3::https://s3-eu-west-1.amazonaws.com/bucket/vpc.zip"),
        ModuleSourceKind::Bucket { host: host("s3-eu-west-1.amazonaws.com") }
    );
    let registry = |host: Option<&str>, name: &str| ModuleSourceKind::Registry {
        host: host.map(str::to_owned),
        name: name.to_owned(),
    };
    assert_eq!(parsed("terraform-aws-modules/vpc/aws"), registry(None, "terraform-aws-modules/vpc/aws"));
    assert_eq!(
        parsed("app.terraform.io/example/k8s/aws//modules/x"),
        registry(Some("app.terraform.io"), "example/k8s/aws")
    );
    // The last line of a YAML block.
    assert_eq!(parsed("terraform-aws-modules/vpc/aws\n"), registry(None, "terraform-aws-modules/vpc/aws"));
}

#[test]
fn c4_what_is_on_the_machine_of_the_operator_is_refused() {
    let paths = [
        "/var/lib/capt/workspaces/team-b/victim",
        "./x",
        "../x",
        ".",
        "..",
        "~/x",
        "file:///var/lib/capt",
        "FILE:///var/lib/capt",
        "file:x",
        "file://localhost/var",
        "\\\\host\\share",
        "c:\\x",
        "C:/x",
    ];
    for getter in ["", "git::", "git::git::", "file::", "s3::", "https::", "GIT::"] {
        for path in paths {
            let address = format!("{getter}{path}");
            let refused = ModuleSource::parse(&address).unwrap_err();
            assert!(matches!(refused, SourceError::Local { .. }), "{address}: {refused}");
        }
    }
}

#[rstest]
#[case("--upload-pack=touch /tmp/x")]
#[case("-from-module=x")]
#[case("git::-oProxyCommand=x")]
#[case("git::--upload-pack=x")]
#[case("git::ext::sh -c x")]
#[case("ext::sh")]
#[case("git::ssh://-oProxyCommand=x/y")]
#[case("git::ssh://-oProxyCommand=x@host/y")]
#[case("git::ssh://%2DoProxyCommand=x@host/y")]
#[case("git::-oProxyCommand=x@host:y")]
#[case("git::git@-oProxyCommand=x:y")]
#[case("git::git@host:--upload-pack=x")]
#[case("git::https://example.com/a.git?ref=--upload-pack=x")]
#[case("git::https://example.com/a.git?ref=%2D-upload-pack=x")]
#[case("git::https://example.com/a.git?ref=v1&ref=-x")]
#[case("git::https://example.com/a.git?depth=1x")]
#[case("git::https://example.com/a.git?depth=--x")]
#[case("git::https://example.com/a.git//../../x")]
#[case("git::https://example.com/a.git//%2e%2e/x")]
#[case("git::https://exam ple.com/a.git")]
#[case("git::https://example.com/a.git\nx")]
#[case("git::https:///a.git")]
#[case("git::transport-helper://host/x")]
#[case("hg::https://example.com/x")]
#[case("ssh://git@example.com/x")]
#[case("https:/example.com")]
#[case("https://example.com/x.zip?checksum=file:///etc/shadow")]
#[case("https://example.com/x.zip?checksum=FILE:x")]
#[case("s3::https://s3.amazonaws.com/b/x.zip?aws_profile=admin")]
#[case("only-one-word")]
#[case("${where}")]
fn c4_options_of_downloaders_and_unknown_addresses_are_refused(#[case] address: &str) {
    let refused = ModuleSource::parse(address).unwrap_err();
    assert!(!matches!(refused, SourceError::Empty), "{refused}");
    let local = ModuleSource::parse_with_local(address, Path::new("."), LocalModules::of_the_command_line());
    assert!(local.is_err(), "the command line has no use for it either");
}

#[test]
fn the_command_line_reads_local_modules() {
    assert_eq!(local("./modules/x").directory(), Some(Path::new("/manifests/./modules/x")));
    assert_eq!(local("../x").address(), "/manifests/../x");
    assert_eq!(local("/srv/x").address(), "/srv/x");
    let relative = ModuleSource::parse_with_local("./x", Path::new(""), LocalModules::of_the_command_line());
    assert_eq!(relative.unwrap().address(), "./x");
    let repository = local("git::file:///srv/x.git");
    assert_eq!((repository.directory(), repository.address()), (None, "git::file:///srv/x.git"));
    assert!(matches!(local("terraform-aws-modules/vpc/aws").kind(), ModuleSourceKind::Registry { .. }));
}

#[rstest]
#[case(
    "git::https://user:hunter2@example.com/a.git?ref=v1",
    "git::https://REDACTED@example.com/a.git?ref=v1"
)]
#[case("https://hunter2@example.com/x.zip", "https://REDACTED@example.com/x.zip")]
#[case("git::ssh://git@example.com/x?sshkey=hunter2", "git::ssh://git@example.com/x?sshkey=REDACTED")]
#[case("git@github.com:org/repo.git", "git@github.com:org/repo.git")]
#[case(
    "s3::https://h/x?aws_access_key_secret=hunter2&archive=zip",
    "s3::https://h/x?aws_access_key_secret=REDACTED&archive=zip"
)]
fn l3_credentials_are_not_shown(#[case] address: &str, #[case] shown: &str) {
    let source = ModuleSource::parse(address).unwrap();
    assert_eq!(source.to_string(), shown);
    assert_eq!(source.address(), address, "terraform needs them");
    let all = format!("{source:?} {:?}", source.kind());
    assert!(!all.contains("hunter2"), "{all}");
}

#[test]
fn l3_errors_and_texts_of_terraform_do_not_show_them_either() {
    let refused = ModuleSource::parse("hg::https://user:hunter2@example.com/x").unwrap_err().to_string();
    assert!(!refused.contains("hunter2") && refused.contains("example.com"), "{refused}");
    let source = ModuleSource::parse("git::https://user:p%40ssword@example.com/x.git").unwrap();
    let said = source.redact("cannot clone https://user:p%40ssword@example.com/x.git with password p@ssword");
    assert_eq!(said, "cannot clone https://REDACTED@example.com/x.git with password REDACTED");
}

fn module(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

fn fetched() -> ModuleSource {
    ModuleSource::parse("git::https://user:hunter2@example.com/x.git").unwrap()
}

#[rstest]
#[case("terraform.tfstate")]
#[case("terraform.tfstate.backup")]
#[case("errored.tfstate")]
#[case("live/terraform.tfstate")]
#[case("terraform.tfstate.d/prod/x.json")]
#[case("live/capt.tfplan")]
#[case("live/terraform.tfvars")]
#[case("live/terraform.tfvars.json")]
#[case("live/zzz.auto.tfvars.json")]
#[case("live/capt_provider_override.tf.json")]
#[case("live/capt-imports.tf.json")]
fn h2_a_fetched_module_with_a_reserved_file_is_refused_and_the_file_is_named(#[case] path: &str) {
    let dir = module(&[("live/main.tf", ""), (path, "{}")]);
    let refused =
        read_source(&fetched(), dir.path(), "live", SourceLimits::default()).unwrap_err().to_string();
    assert!(refused.contains(&format!("contains {path:?}")) && !refused.contains("hunter2"), "{refused}");
}

#[test]
fn h2_hidden_files_and_links_are_left_out_and_other_names_are_not_reserved() {
    let dir = module(&[
        ("main.tf", "a"),
        (".terraform/x", ""),
        (".terraform.lock.hcl", ""),
        (".capt/sealed.json", ""),
        ("modules/a/.hidden", ""),
        ("modules/a/terraform.tfvars", "not read by terraform"),
        ("captain.tf", ""),
        ("prod.tfvars", ""),
    ]);
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link.tf")).unwrap();
    let tree = read_source(&fetched(), dir.path(), "", SourceLimits::default()).unwrap();
    let names: Vec<_> = tree.files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(names, ["captain.tf", "main.tf", "modules/a/terraform.tfvars", "prod.tfvars"]);
}

#[test]
fn h2_the_state_of_a_local_module_is_ignored_and_named() {
    let dir = module(&[
        ("main.tf", "a"),
        ("terraform.tfstate", "{}"),
        ("terraform.tfstate.backup", "{}"),
        ("x.tfplan", ""),
        ("terraform.tfvars", "mine = 1"),
    ]);
    let tree = read_source(&local("./x"), dir.path(), "", SourceLimits::default()).unwrap();
    assert_eq!(tree.ignored, ["terraform.tfstate", "terraform.tfstate.backup", "x.tfplan"]);
    assert_eq!(tree.files.len(), 2);
}

#[test]
fn h6_a_module_is_read_only_up_to_its_limits() {
    let dir = module(&[("main.tf", "")]);
    let limits = SourceLimits { size: ByteSize::mebibytes(1), files: 10 };
    let read = || read_source(&fetched(), dir.path(), "", limits).map_err(|error| error.to_string());
    // A sparse file of a terabyte.
    std::fs::File::create(dir.path().join("huge.bin")).unwrap().set_len(1 << 40).unwrap();
    let refused = read().unwrap_err();
    assert!(refused.contains("is larger than 1Mi") && refused.contains("--max-source-size"), "{refused}");
    assert!(is_larger_than(dir.path(), 1 << 30));
    std::fs::remove_file(dir.path().join("huge.bin")).unwrap();
    assert!(read().is_ok() && !is_larger_than(dir.path(), 1 << 30));
    (0..10).for_each(|at| std::fs::write(dir.path().join(format!("{at}.tf")), "").unwrap());
    let refused = read().unwrap_err();
    assert!(refused.contains("has more than 10 files"), "{refused}");
}

proptest! {
    /// Whatever is accepted, terraform does not take it for a path, a file URL or an option.
    #[test]
    fn c4_no_accepted_address_is_local(address in "(git::|s3::|file::|ext::|[a-z]{0,3}::)?[-.~/a-z:@?=&%\\\\]{0,24}(//)?[-.a-z0-9]{0,8}") {
        if let Ok(source) = ModuleSource::parse(&address) {
            let text = source.address();
            prop_assert!(!text.starts_with(['-', '/', '.', '~']), "{text}");
            let lower = text.to_ascii_lowercase();
            prop_assert!(!lower.contains("file:") || lower.find("file:") > lower.find("://"), "{text}");
            prop_assert!(source.directory().is_none());
            prop_assert!(!lower.contains("::-") && !lower.contains("::/") && !lower.contains("::."), "{text}");
        }
    }

    /// A password is shown nowhere, wherever it is in the address.
    #[test]
    fn l3_no_password_is_shown(password in "[a-z0-9]{12,20}", host in "[a-z]{1,8}\\.org", place in 0_usize..4) {
        let address = match place {
            0 => format!("git::https://user:{password}@{host}/x.git"),
            1 => format!("https://{password}@{host}/x.zip"),
            2 => format!("git::ssh://git@{host}/x?sshkey={password}"),
            _ => format!("hg::https://user:{password}@{host}/x"),
        };
        let shown = match ModuleSource::parse(&address) {
            Ok(source) => format!("{source} {source:?} {:?} {}", source.kind(), source.redact(&address)),
            Err(error) => format!("{error} {error:?}"),
        };
        prop_assert!(!shown.contains(&password), "{shown}");
    }

    #[test]
    fn parsing_never_panics(address in "\\PC{0,40}") {
        let _ = ModuleSource::parse(&address);
    }
}
