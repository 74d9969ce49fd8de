use std::{fs, os::unix::fs::PermissionsExt};

use rstest::rstest;

use super::*;

fn program(dir: &Path, name: &str, mode: u32) -> PathBuf {
    fs::create_dir_all(dir).unwrap();
    let path = dir.join(name);
    fs::write(&path, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn path_of(dirs: &[&Path]) -> std::ffi::OsString {
    std::env::join_paths(dirs).unwrap()
}

#[test]
fn terraform_is_preferred_and_tofu_is_taken_when_it_is_alone() {
    let tmp = tempfile::tempdir().unwrap();
    let (one, two) = (tmp.path().join("one"), tmp.path().join("two"));
    let tofu = program(&one, "tofu", 0o755);
    let path = path_of(&[&one, &two]);
    let found = locate(None, &path, tmp.path()).unwrap();
    assert_eq!(found, EngineCandidate { kind: EngineKind::OpenTofu, path: tofu });
    let terraform = program(&two, "terraform", 0o755);
    let found = locate(None, &path, tmp.path()).unwrap();
    assert_eq!(found, EngineCandidate { kind: EngineKind::Terraform, path: terraform });
    assert_eq!(locate(Some("tofu"), &path, tmp.path()).unwrap().kind, EngineKind::OpenTofu);
}

#[test]
fn a_relative_path_is_relative_to_the_base_and_becomes_absolute() {
    let tmp = tempfile::tempdir().unwrap();
    let here = program(&tmp.path().join("bin"), "my-terraform", 0o755);
    let found = locate(Some("bin/my-terraform"), OsStr::new(""), tmp.path()).unwrap();
    assert_eq!(found.path, here);
    assert_eq!(found.kind, EngineKind::Terraform);
}

#[test]
fn a_terraform_that_is_a_link_to_tofu_is_tofu() {
    let tmp = tempfile::tempdir().unwrap();
    program(tmp.path(), "tofu", 0o755);
    std::os::unix::fs::symlink(tmp.path().join("tofu"), tmp.path().join("terraform")).unwrap();
    let found = locate(Some("terraform"), &path_of(&[tmp.path()]), tmp.path()).unwrap();
    assert_eq!(found.kind, EngineKind::OpenTofu);
}

#[test]
fn an_engine_that_is_nowhere_is_missing() {
    let tmp = tempfile::tempdir().unwrap();
    let path = path_of(&[tmp.path()]);
    for wanted in [None, Some("terraform"), Some("./terraform"), Some("/nowhere/terraform")] {
        let error = locate(wanted, &path, tmp.path()).unwrap_err();
        assert!(matches!(error, EngineError::NotFound { .. }), "{error}");
        assert!(error.to_string().contains("--engine"), "{error}");
    }
    assert!(locate(None, &path, tmp.path()).unwrap_err().to_string().starts_with("terraform or tofu"));
}

#[test]
fn a_file_without_the_executable_bit_is_named() {
    let tmp = tempfile::tempdir().unwrap();
    let path = program(tmp.path(), "terraform", 0o644);
    let on_path = locate(None, &path_of(&[tmp.path()]), tmp.path()).unwrap_err();
    assert_eq!(on_path, EngineError::NotExecutable { path: path.clone() });
    let direct = locate(Some(path.to_str().unwrap()), OsStr::new(""), tmp.path()).unwrap_err();
    assert_eq!(direct, EngineError::NotExecutable { path });
    let directory = tmp.path().join("d");
    fs::create_dir(&directory).unwrap();
    let error = locate(Some(directory.to_str().unwrap()), OsStr::new(""), tmp.path()).unwrap_err();
    assert_eq!(error, EngineError::IsDirectory { path: directory });
}

#[test]
fn a_later_directory_wins_over_an_earlier_file_that_cannot_run() {
    let tmp = tempfile::tempdir().unwrap();
    let (one, two) = (tmp.path().join("one"), tmp.path().join("two"));
    program(&one, "terraform", 0o644);
    let runs = program(&two, "terraform", 0o755);
    assert_eq!(locate(None, &path_of(&[&one, &two]), tmp.path()).unwrap().path, runs);
}

fn candidate() -> EngineCandidate {
    EngineCandidate { kind: EngineKind::Terraform, path: "/bin/terraform".into() }
}

#[rstest]
#[case("1.11.4")]
#[case("1.10.0")]
#[case("1.10.0-rc1")]
#[case("2.0.0")]
fn new_enough_versions_pass(#[case] version: &str) {
    let answer =
        format!(r#"{{"terraform_version":"{version}","platform":"linux_amd64","provider_selections":{{}}}}"#);
    assert_eq!(candidate().verify(answer.as_bytes()).unwrap().version.to_string(), version);
}

#[rstest]
#[case("1.9.8")]
#[case("1.5.7")]
#[case("0.13.0")]
fn old_versions_are_refused_with_both_numbers(#[case] version: &str) {
    let answer = format!(r#"{{"terraform_version":"{version}"}}"#);
    let error = candidate().verify(answer.as_bytes()).unwrap_err();
    assert!(matches!(error, EngineError::TooOld { .. }));
    let text = error.to_string();
    assert!(text.contains(version) && text.contains("1.10.0"), "{text}");
}

#[rstest]
#[case(b"Terraform v1.11.4\n")]
#[case(b"")]
#[case(br#"{"terraform_version":"latest"}"#)]
#[case(br#"{"version":"1.11.4"}"#)]
fn other_answers_are_unreadable(#[case] answer: &[u8]) {
    assert!(matches!(candidate().verify(answer), Err(EngineError::InvalidVersionOutput { .. })));
}

#[test]
fn the_selected_providers_are_reported() {
    let answer = br#"{"terraform_version":"1.11.4","provider_selections":{"registry.terraform.io/hashicorp/aws":"5.100.0"}}"#;
    let report = parse_version(answer, Path::new("terraform")).unwrap();
    assert_eq!(report.providers["registry.terraform.io/hashicorp/aws"], "5.100.0");
}
