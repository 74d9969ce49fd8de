//! What a start takes over from the last one.

use std::{collections::BTreeMap, path::Path};

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    options: UpOptions,
}

fn settings(args: &[&str], last: Option<UpSettings>) -> UpSettings {
    let process_env = ProcessEnv { env: BTreeMap::new(), cwd: "/here".into(), exe: "/bin/capt".into() };
    Command::try_parse_from([&["up"], args].concat()).unwrap().options.settings(&process_env, last)
}

fn last() -> UpSettings {
    UpSettings {
        aws: AwsMode::Real,
        kubeconfig: Some("/old/config".into()),
        context: Some("dev".to_owned()),
        engine: Some("tofu".to_owned()),
        ..UpSettings::default()
    }
}

#[test]
fn what_is_not_said_is_as_it_was() {
    assert_eq!(settings(&[], Some(last())), last());
    assert_eq!(settings(&[], None), UpSettings::default());
}

#[test]
fn a_flag_wins_and_a_context_belongs_to_its_file() {
    let changed = settings(&["--aws", "local", "--kubeconfig", "new"], Some(last()));
    assert_eq!(changed.aws, AwsMode::Local);
    assert_eq!(changed.kubeconfig.as_deref(), Some(Path::new("/here/new")));
    assert_eq!((changed.context, changed.engine.as_deref()), (None, Some("tofu")));
}
