//! The data directory: its lock, its AWS account, and the environment of the commands.

use terraform_driver::render;

use super::*;
use crate::{
    aws::{Cloud, Principal},
    pipeline::{
        CloudBinding, DataDirectory, DataDirectoryError,
        testing::{engine, process_env},
    },
};

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
            let environment = data_dir.environment(&[], principal).unwrap();
            let home = environment.variables().get("HOME").cloned().unwrap_or_default();
            assert_eq!(home == "/home/operator", own_home, "{home}");
        }
    }
}
