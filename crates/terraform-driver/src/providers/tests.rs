use std::fs;

use pretty_assertions::assert_eq;
use rstest::rstest;
use tempfile::TempDir;

use super::*;

const REGISTRY: &str = "registry.terraform.io";

struct Machine {
    tmp: TempDir,
    env: BTreeMap<String, String>,
    engine: EngineKind,
}

fn machine() -> Machine {
    let tmp = tempfile::tempdir().unwrap();
    let env = [
        ("HOME".to_owned(), tmp.path().join("home").to_str().unwrap().to_owned()),
        ("XDG_DATA_DIRS".to_owned(), tmp.path().join("share").to_str().unwrap().to_owned()),
    ];
    Machine { env: env.into(), tmp, engine: EngineKind::Terraform }
}

impl Machine {
    fn dir(&self, path: &str) -> PathBuf {
        let dir = self.tmp.path().join(path);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn file(&self, path: &str, text: &str) -> PathBuf {
        let file = self.tmp.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    }

    /// An unpacked mirror below `path` that holds hashicorp/aws.
    fn mirror(&self, path: &str, versions: &[&str]) -> PathBuf {
        for version in versions {
            self.dir(&format!("{path}/{}/hashicorp/aws/{version}/{}", self.engine.registry(), platform()));
        }
        self.tmp.path().join(path)
    }

    fn discover(&self, setting: Option<&Path>) -> Result<ProviderDiscovery, ProviderError> {
        let roots = [self.tmp.path().join("opt"), self.tmp.path().join("home")];
        let around = DiscoveryInputs { setting, env: &self.env, roots: &roots, engine: self.engine };
        discover_providers(&around, &[ProviderRequirement::new("hashicorp", "aws", ">= 5.60, < 7").unwrap()])
    }
}

fn mirror_of(discovery: &ProviderDiscovery) -> (&Path, &MirrorOrigin) {
    match &discovery.source {
        ProviderSource::Mirror { dir, found_by } => (dir, found_by),
        other => panic!("{other:?} {:?}", discovery.notes),
    }
}

#[test]
fn the_order_of_the_places_is_kept() {
    let mut machine = machine();
    assert_eq!(machine.discover(None).unwrap().source, ProviderSource::Registry);
    let searched = machine.mirror("opt/tf-plugins", &["5.100.0"]);
    assert_eq!(mirror_of(&machine.discover(None).unwrap()), (searched.as_path(), &MirrorOrigin::Search));
    let implied = machine.mirror("share/terraform/plugins", &["5.100.0"]);
    assert_eq!(mirror_of(&machine.discover(None).unwrap()), (implied.as_path(), &MirrorOrigin::Implied));
    let home = machine.mirror("home/.terraform.d/plugins", &["5.100.0"]);
    assert_eq!(mirror_of(&machine.discover(None).unwrap()), (home.as_path(), &MirrorOrigin::Implied));
    let configured = machine.mirror("elsewhere/m", &["5.100.0"]);
    let text = format!(
        "provider_installation {{\n  filesystem_mirror {{\n    path = \"{}\"\n  }}\n}}\n",
        configured.display()
    );
    let rc = machine.file("home/.terraformrc", &text);
    assert_eq!(
        mirror_of(&machine.discover(None).unwrap()),
        (configured.as_path(), &MirrorOrigin::CliConfig(rc))
    );
    let named = machine.file("named.tfrc", &text);
    machine.env.insert("TF_CLI_CONFIG_FILE".to_owned(), named.to_str().unwrap().to_owned());
    assert_eq!(
        mirror_of(&machine.discover(None).unwrap()),
        (configured.as_path(), &MirrorOrigin::CliConfig(named))
    );
    let set = machine.mirror("set", &["5.100.0"]);
    assert_eq!(mirror_of(&machine.discover(Some(&set)).unwrap()), (set.as_path(), &MirrorOrigin::Setting));
}

#[test]
fn a_cli_configuration_that_is_not_there_or_does_not_parse_is_passed_over() {
    let mut machine = machine();
    let searched = machine.mirror("opt/tf-plugins", &["5.100.0"]);
    machine.env.insert("TF_CLI_CONFIG_FILE".to_owned(), "/nowhere/at/all".to_owned());
    let discovery = machine.discover(None).unwrap();
    assert_eq!(mirror_of(&discovery).0, searched);
    assert!(discovery.notes.is_empty());
    let broken = machine.file("broken.tfrc", "provider_installation {\n");
    machine.env.insert("TF_CLI_CONFIG_FILE".to_owned(), broken.to_str().unwrap().to_owned());
    let discovery = machine.discover(None).unwrap();
    assert_eq!(mirror_of(&discovery).0, searched);
    assert!(discovery.notes[0].contains("broken.tfrc"), "{:?}", discovery.notes);
}

#[test]
fn a_mirror_without_a_suitable_version_is_passed_over_with_a_note() {
    let machine = machine();
    machine.mirror("opt/a-old", &["4.67.0", "5.0.0"]);
    let discovery = machine.discover(None).unwrap();
    assert_eq!(discovery.source, ProviderSource::Registry);
    assert!(discovery.notes[0].contains("hashicorp/aws 4.67.0, 5.0.0"), "{:?}", discovery.notes);
    let new = machine.mirror("opt/b-new", &["5.100.0"]);
    assert_eq!(mirror_of(&machine.discover(None).unwrap()).0, new);
}

#[test]
fn a_mirror_that_was_set_has_to_hold_what_is_wanted() {
    let machine = machine();
    let error = machine.discover(Some(&machine.tmp.path().join("gone"))).unwrap_err();
    assert!(matches!(error, ProviderError::NoMirror { .. }));
    let inside = machine.mirror("set", &["4.0.0"]).join(REGISTRY);
    assert!(
        matches!(machine.discover(Some(&inside)), Err(ProviderError::NoMirror { .. })),
        "one directory too deep"
    );
    let error = machine.discover(Some(&machine.tmp.path().join("set"))).unwrap_err();
    let text = error.to_string();
    for part in
        ["hashicorp/aws 4.0.0", "hashicorp/aws >= 5.60, < 7", "terraform providers mirror", &platform()]
    {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn another_platform_does_not_count() {
    let machine = machine();
    machine.dir(&format!("opt/m/{REGISTRY}/hashicorp/aws/5.100.0/plan9_mips"));
    assert_eq!(machine.discover(None).unwrap().source, ProviderSource::Registry);
}

#[test]
fn packed_mirrors_are_read_too() {
    let machine = machine();
    let zip = format!("opt/m/{REGISTRY}/hashicorp/aws/terraform-provider-aws_5.99.1_{}.zip", platform());
    machine.file(&zip, "");
    let discovery = machine.discover(None).unwrap();
    assert_eq!(discovery.mirrored[0].versions, ["5.99.1".parse().unwrap()]);
}

#[test]
fn tofu_takes_a_mirror_of_its_own_registry_only() {
    let mut machine = machine();
    machine.mirror("opt/tf", &["5.100.0"]);
    machine.engine = EngineKind::OpenTofu;
    assert_eq!(machine.discover(None).unwrap().source, ProviderSource::Registry);
    let tofu = machine.mirror("opt/tofu", &["5.100.0"]);
    let discovery = machine.discover(None).unwrap();
    assert_eq!(mirror_of(&discovery).0, tofu);
    assert!(discovery.cli_config_text().contains("registry.opentofu.org/hashicorp/aws"));
}

#[test]
fn the_search_is_three_deep_and_no_deeper() {
    let machine = machine();
    machine.mirror("opt/a/b/c", &["5.100.0"]);
    assert_eq!(machine.discover(None).unwrap().source, ProviderSource::Registry);
    let at_depth = machine.mirror("opt/a/b", &["5.100.0"]);
    assert_eq!(mirror_of(&machine.discover(None).unwrap()).0, at_depth);
}

#[test]
fn the_search_survives_loops_of_links_and_follows_a_link_to_a_mirror() {
    let machine = machine();
    let opt = machine.dir("opt");
    std::os::unix::fs::symlink(&opt, opt.join("again")).unwrap();
    std::os::unix::fs::symlink("nowhere", opt.join("dangling")).unwrap();
    assert_eq!(machine.discover(None).unwrap().source, ProviderSource::Registry);
    let real = machine.mirror("deep/down/below/here", &["5.100.0"]);
    std::os::unix::fs::symlink(&real, opt.join("link")).unwrap();
    let discovery = machine.discover(None).unwrap();
    assert_eq!(mirror_of(&discovery).0.file_name().unwrap(), "link");
}

#[test]
fn our_configuration_uses_the_mirror_for_what_it_holds_and_the_registry_for_the_rest() {
    let machine = machine();
    let dir = machine.mirror("opt/tf \"quoted\"", &["5.100.0"]);
    machine.file(
        "home/.terraformrc",
        "plugin_cache_dir = \"/shared\"\ncredentials \"app.terraform.io\" {\n  token = \"canary\"\n}\nprovider_installation {\n  dev_overrides {\n    \"hashicorp/aws\" = \"/x\"\n  }\n  direct {}\n}\n",
    );
    let discovery = machine.discover(None).unwrap();
    let path = dir.to_str().unwrap().replace('"', "\\\"");
    assert_eq!(
        discovery.cli_config_text(),
        format!(
            "# Written by capt. Changes are lost.\ndisable_checkpoint = true\nprovider_installation {{\n  filesystem_mirror {{\n    path    = \"{path}\"\n    include = [\"{REGISTRY}/hashicorp/aws\"]\n  }}\n  direct {{\n    exclude = [\"{REGISTRY}/hashicorp/aws\"]\n  }}\n}}\ncredentials \"app.terraform.io\" {{\n  token = \"canary\"\n}}\n"
        )
    );
    assert!(!format!("{discovery:?}").contains("canary"));
}

#[test]
fn a_network_mirror_of_the_caller_is_used_as_it_stands() {
    let machine = machine();
    let rc = machine.file(
        "home/.terraformrc",
        "provider_installation {\n  network_mirror {\n    url = \"https://mirror.example.com/\"\n  }\n}\n",
    );
    let discovery = machine.discover(None).unwrap();
    assert_eq!(discovery.source, ProviderSource::CallerConfig { file: rc });
    assert!(discovery.cli_config_text().contains("url = \"https://mirror.example.com/\""));
}

#[test]
fn the_registry_is_asked_directly() {
    let text = machine().discover(None).unwrap().cli_config_text();
    assert!(text.ends_with("provider_installation {\n  direct {}\n}\n"), "{text}");
}

#[test]
fn the_digest_follows_the_versions() {
    let machine = machine();
    machine.mirror("opt/m", &["5.99.0"]);
    let one = machine.discover(None).unwrap().digest();
    assert_eq!(one, machine.discover(None).unwrap().digest());
    machine.mirror("opt/m", &["5.100.0"]);
    assert_ne!(one, machine.discover(None).unwrap().digest());
}

#[rstest]
#[case(">= 5.60, < 7", "5.100.0", true)]
#[case(">= 5.60, < 7", "5.59.9", false)]
#[case(">= 5.60, < 7", "7.0.0", false)]
#[case(">= 5.60, < 7", "6.0.0-beta1", false)]
#[case("~> 5.0", "5.99.0", true)]
#[case("~> 5.0", "6.0.0", false)]
#[case("~> 5.0.1", "5.0.9", true)]
#[case("~> 5.0.1", "5.1.0", false)]
#[case("5.100.0", "5.100.0", true)]
#[case("= 5.100", "5.100.0", true)]
#[case("!= 5.100.0, > 5", "5.100.0", false)]
#[case("<= 5.100.0", "5.100.0", true)]
#[case("6.0.0-beta1", "6.0.0-beta1", true)]
fn constraints_mean_what_they_mean_to_terraform(
    #[case] constraint: &str,
    #[case] version: &str,
    #[case] matches: bool,
) {
    let constraint: Constraint = constraint.parse().unwrap();
    assert_eq!(constraint.matches(&version.parse().unwrap()), matches);
}

#[test]
fn what_is_no_constraint_is_refused() {
    for text in ["", "latest", ">= x", "~>", "1.2.3.4"] {
        assert!(text.parse::<Constraint>().is_err(), "{text}");
    }
}
