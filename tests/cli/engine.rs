//! Terraform that is missing, too old or broken, and providers that are not there.

use std::fs;

use super::harness::{CliHarness, QUICKSTART, engine_script};

const REMEDY: &str = "--engine PATH";

/// `plan`, `apply` and `destroy --aws real` all need an engine; one of them must do here.
#[track_caller]
fn assert_refused(args: &[&str], texts: &[&str]) {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    ground.capt(&[&["plan", "demo.yaml", "--data", "data"], args].concat()).run().assert_refused(texts);
    assert!(!ground.has("data"), "nothing was started, so nothing is there");
    ground.render().assert_success();
}

#[test]
fn no_terraform_on_the_path() {
    assert_refused(
        &[],
        &["terraform or tofu was not found in PATH", "install terraform or tofu (1.10 or newer)", REMEDY],
    );
}

#[test]
fn an_engine_that_points_nowhere() {
    assert_refused(&["--engine", "./nowhere/terraform"], &["./nowhere/terraform was not found", REMEDY]);
    assert_refused(&["--engine", "/nowhere/tofu"], &["/nowhere/tofu was not found", REMEDY]);
    assert_refused(&["--engine", "terrafrom"], &["terrafrom was not found in PATH", REMEDY]);
}

#[test]
fn an_engine_of_the_environment_that_points_nowhere() {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    let run = ground.capt(&["apply", "demo.yaml", "--data", "data"]).env("CAPT_ENGINE", "./nowhere/tofu");
    run.run().assert_refused(&["./nowhere/tofu was not found", REMEDY]);
}

#[test]
fn an_engine_that_is_too_old() {
    let old = engine_script("old");
    assert_refused(
        &["--engine", &old],
        &[&old, "Terraform 1.5.7", "at least 1.10.0 is needed", "install a newer one", REMEDY],
    );
}

#[test]
fn an_engine_that_is_not_executable() {
    let file = engine_script("not-executable");
    assert_refused(&["--engine", &file], &[&file, "is not executable", "chmod +x", REMEDY]);
}

#[test]
fn an_engine_that_is_a_directory_is_not_told_to_become_executable() {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    let said = ground.capt(&["plan", "demo.yaml", "--data", "data", "--engine", "./bin"]).run();
    let said = said.assert_refused(&["bin", "is a directory", REMEDY]);
    assert!(!said.stderr.contains("chmod"), "{said:?}");
}

#[test]
fn a_terraform_on_the_path_that_is_not_executable() {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    fs::copy(engine_script("not-executable"), ground.path("bin/terraform")).unwrap();
    let said = ground.capt(&["plan", "demo.yaml", "--data", "data"]).run();
    said.assert_refused(&["bin/terraform is not executable", "chmod +x"]);
}

#[test]
fn an_engine_that_does_not_answer_in_json() {
    for name in ["chatty", "failing"] {
        let file = engine_script(name);
        assert_refused(&["--engine", &file], &[&file, "did not answer `version -json`", REMEDY]);
    }
}

#[test]
fn an_engine_that_the_system_cannot_run() {
    let file = engine_script("homeless");
    assert_refused(&["--engine", &file], &["cannot run", &file, REMEDY]);
}

#[test]
fn a_provider_mirror_that_is_not_there_or_empty() {
    let new = engine_script("new");
    for dir in ["nowhere", "bin"] {
        assert_refused(
            &["--engine", &new, "--provider-mirror", dir],
            &[&format!("the provider mirror {dir}"), "registry.terraform.io", "name the directory above it"],
        );
    }
}

#[test]
fn a_provider_mirror_that_lacks_the_provider() {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    fs::create_dir_all(ground.path("mirror/registry.terraform.io/hashicorp")).unwrap();
    let new = engine_script("new");
    let plan = ["plan", "demo.yaml", "--data", "data", "--engine", &new, "--provider-mirror", "mirror"];
    let remedy = ["fill it with `terraform providers mirror`", "or name another"];
    ground.capt(&plan).run().assert_refused(
        &[&["mirror mirror holds no hashicorp/aws", "hashicorp/aws >= 5."], &remedy[..]].concat(),
    );
    ground.create_provider_mirror("4.67.0");
    ground
        .capt(&plan)
        .run()
        .assert_refused(&[&["hashicorp/aws 4.67.0", "hashicorp/aws >= 5."], &remedy[..]].concat());
    assert!(!ground.has("data"));
}
