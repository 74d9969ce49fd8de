//! The data directory: its lock, its AWS account, and the environment of the commands.

use std::path::PathBuf;

use capt_model::workspaces::WorkspaceKey;
use terraform_driver::{render, workspace::WorkspaceDir};

use super::*;
use crate::{
    aws::{Cloud, Principal},
    pipeline::{
        CloudBinding, DataDirectory, DataDirectoryError, RunHome,
        testing::{engine, process_env},
    },
};

fn workspace(data_dir: &DataDirectory, name: &str) -> WorkspaceDir {
    data_dir.workspace_dir(&WorkspaceKey::new("team", name))
}

#[test]
fn a_data_directory_belongs_to_one_process() {
    let site = FakeSite::new();
    let first = site.open();
    let again = DataDirectory::open(&process_env(), site.path(), Cloud::Real, engine(), "");
    match again.err() {
        Some(DataDirectoryError::InUse { holder, .. }) => assert!(holder.starts_with("another capt")),
        other => panic!("{other:?}"),
    }
    drop(first);
    drop(site.open());
}

#[tokio::test]
async fn a_directory_with_resources_stays_with_its_account() {
    let account = |id: &str| CloudBinding::Account(id.to_owned());
    let site = FakeSite::new();
    let bind = |to: &CloudBinding| site.open().bind_cloud(to);
    bind(&CloudBinding::Local).unwrap();
    bind(&account("1")).unwrap();
    run(&site, Goal::Plan).await.unwrap();
    bind(&account("2")).unwrap();
    site.put_state(&state(1, &[("aws_vpc", "ok")]));
    bind(&account("2")).unwrap();
    for other in [account("1"), CloudBinding::Local] {
        let refused = bind(&other).unwrap_err().to_string();
        assert!(refused.contains("the AWS account 2") && refused.contains(&other.to_string()), "{refused}");
    }
    site.put_state(&state(2, &[]));
    bind(&account("1")).unwrap();
}

#[test]
fn init_runs_again_for_other_providers_and_a_plan_has_another_hash_for_other_variables() {
    let site = FakeSite::new();
    let data_dir = site.open();
    let digests = |job: &WorkspaceJob, fetched: &[(String, Vec<u8>)]| {
        data_dir.digests(&render::render(&job.resolved.request).unwrap(), fetched)
    };
    let named = |name: &str| {
        let mut job = job();
        let text = "variable \"name\" {\n  type = string\n}\n".to_owned();
        job.resolved.request.source = render::RootSource::Inline { format: render::InlineFormat::Hcl, text };
        job.resolved.request.variables.insert("name".to_owned(), name.into());
        job
    };
    let base = digests(&named("demo"), &[]);
    assert_eq!(base, digests(&named("demo"), &[]));
    let changed = digests(&named("other"), &[]);
    assert_ne!(changed.configuration, base.configuration);
    assert_eq!(changed.installation, base.installation, "init does not read values");
    let module = vec![("main.tf".to_owned(), b"# one".to_vec())];
    let fetched = digests(&named("demo"), &module);
    assert_ne!(fetched.configuration, base.configuration);
    assert_ne!(fetched.installation, base.installation);
}

#[test]
fn the_operators_own_home_is_for_its_own_credentials_on_the_real_aws_only() {
    let site = FakeSite::new();
    drop(site.open());
    let mut env = process_env();
    env.env.insert("HOME".to_owned(), "/home/operator".to_owned());
    let key = Principal::from_default_chain();
    for (cloud, own_home) in [(Cloud::Real, true), (Cloud::Local { endpoint: "http://x".to_owned() }, false)]
    {
        let data_dir = DataDirectory::open(&env, site.path(), cloud, engine(), "").unwrap();
        for principal in [None, Some(&key)] {
            let environment = data_dir.environment(&workspace(&data_dir, "demo"), &[], principal).unwrap();
            let home = environment.variables().get("HOME").cloned().unwrap_or_default();
            assert_eq!(home == "/home/operator", own_home, "{home}");
        }
    }
}

#[test]
fn m4_the_home_and_tmpdir_of_a_workspace_are_its_own_and_go_with_it() {
    let site = FakeSite::new();
    let mut data_dir = site.open();
    data_dir.home = RunHome::Workspace;
    let of = |name: &str| {
        let environment = data_dir.environment(&workspace(&data_dir, name), &[], None).unwrap();
        ["HOME", "TMPDIR"].map(|name| PathBuf::from(&environment.variables()[name]))
    };
    let ([home, tmp], [other_home, other_tmp]) = (of("demo"), of("other"));
    assert!(home != other_home && tmp != other_tmp, "{home:?} {tmp:?}");
    std::fs::write(home.join(".gitconfig"), "[core]\nsshCommand = steal").unwrap();
    std::fs::write(tmp.join("planted"), "x").unwrap();
    assert_eq!(of("demo"), [home.clone(), tmp.clone()], "a resumed run finds its files");
    data_dir.remove_workspace(workspace(&data_dir, "demo")).unwrap();
    assert!(!home.exists() && !tmp.exists() && other_home.exists());
    assert!(!data_dir.path.join("home/.gitconfig").exists());
}
