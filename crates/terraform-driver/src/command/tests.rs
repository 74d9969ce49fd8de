use std::path::PathBuf;

use pretty_assertions::assert_eq;
use rstest::rstest;
use semver::Version;

use super::*;
use crate::{
    engine::EngineKind,
    environment::{EnvironmentInputs, TerraformCredentials},
    source::ModuleSource,
};

struct Fixture {
    engine: Engine,
    root: PathBuf,
    environment: Environment,
}

fn fixture() -> Fixture {
    let outer = [("PATH".to_owned(), "/usr/bin".to_owned())].into();
    let inputs = EnvironmentInputs {
        cli_config: Path::new("/data/cli.tfrc"),
        home: Path::new("/data/home"),
        tmp: Path::new("/data/tmp"),
        credentials: TerraformCredentials::None,
        template: &[],
    };
    Fixture {
        engine: Engine {
            kind: EngineKind::Terraform,
            path: "/usr/bin/terraform".into(),
            version: Version::new(1, 11, 4),
        },
        root: "/data/workspaces/default/demo-vpc".into(),
        environment: Environment::build(&outer, &inputs).unwrap(),
    }
}

fn with_args<T>(args: UserArgs, use_it: impl FnOnce(&CommandBuilder<'_>) -> T) -> T {
    let Fixture { engine, root, environment } = fixture();
    use_it(&CommandBuilder::new(&engine, &root, &environment, args, Duration::from_secs(30)).unwrap())
}

fn strings(args: &[&str]) -> Vec<String> {
    args.iter().map(|&arg| arg.to_owned()).collect()
}

#[test]
fn every_command_line_is_exactly_this() {
    with_args(UserArgs::default(), |commands| {
        let table = [
            (commands.version(), "terraform version -json"),
            (
                commands.init(LockFileMode::Absent),
                "terraform init -json -input=false -no-color -lock-timeout=30s",
            ),
            (
                commands.init(LockFileMode::Provided),
                "terraform init -json -input=false -no-color -lock-timeout=30s -lockfile=readonly",
            ),
            (
                commands.fetch(&ModuleSource::parse("git::https://example.com/x.git?ref=v1").unwrap()),
                "terraform init -input=false -no-color -backend=false -from-module=git::https://example.com/x.git?ref=v1",
            ),
            (commands.validate(), "terraform validate -json -no-color"),
            (
                commands.plan(PlanMode::Change),
                "terraform plan -json -input=false -no-color -detailed-exitcode -lock-timeout=30s -out=capt.tfplan",
            ),
            (
                commands.plan(PlanMode::Destroy),
                "terraform plan -json -input=false -no-color -detailed-exitcode -lock-timeout=30s -out=capt.tfplan -destroy",
            ),
            (
                commands.plan(PlanMode::RefreshOnly),
                "terraform plan -json -input=false -no-color -detailed-exitcode -lock-timeout=30s -out=capt.tfplan -refresh-only",
            ),
            (
                commands.apply(PlanMode::Change),
                "terraform apply -json -input=false -no-color -lock-timeout=30s capt.tfplan",
            ),
            (
                commands.apply(PlanMode::Destroy),
                "terraform apply -json -input=false -no-color -lock-timeout=30s capt.tfplan",
            ),
            (commands.show_plan(), "terraform show -json -no-color capt.tfplan"),
            (
                commands.untaint("module.a.aws_eks_cluster.this[0]").unwrap(),
                "terraform untaint -no-color -lock-timeout=30s module.a.aws_eks_cluster.this[0]",
            ),
            (
                commands.state_mv("aws_vpc.this", "aws_vpc.old").unwrap(),
                "terraform state mv -no-color -lock-timeout=30s aws_vpc.this aws_vpc.old",
            ),
            (
                commands.import("aws_vpc.this", "vpc-1").unwrap(),
                "terraform import -input=false -no-color -lock-timeout=30s aws_vpc.this vpc-1",
            ),
            (
                commands.state_push("errored.tfstate").unwrap(),
                "terraform state push -no-color -lock-timeout=30s errored.tfstate",
            ),
        ];
        for (invocation, line) in table {
            assert_eq!(invocation.to_string(), line);
            assert_eq!(invocation.program, PathBuf::from("/usr/bin/terraform"));
            assert_eq!(invocation.cwd, PathBuf::from("/data/workspaces/default/demo-vpc"));
            assert_eq!(invocation.env["TF_CLI_CONFIG_FILE"], "/data/cli.tfrc");
        }
    });
}

#[test]
fn arguments_of_the_user_go_where_they_work_with_a_saved_plan() {
    let args = UserArgs {
        init: strings(&["-backend-config=b.hcl"]),
        plan: strings(&["-parallelism=4", "-target=a.b"]),
        apply: strings(&["-target=a.b", "-replace", "c.d", "-parallelism", "2", "-auto-approve"]),
        destroy: strings(&["-refresh=false", "-parallelism=1"]),
    };
    with_args(args, |commands| {
        let ends = |invocation: &Invocation, end: &str| {
            let line = invocation.to_string();
            assert!(line.ends_with(end), "{line} should end in {end}");
        };
        ends(&commands.init(LockFileMode::Provided), "-lockfile=readonly -backend-config=b.hcl");
        ends(&commands.plan(PlanMode::Change), "-out=capt.tfplan -parallelism=4 -target=a.b -replace c.d");
        ends(&commands.apply(PlanMode::Change), "-lock-timeout=30s -parallelism 2 capt.tfplan");
        ends(&commands.plan(PlanMode::Destroy), "-out=capt.tfplan -destroy -refresh=false");
        ends(&commands.apply(PlanMode::Destroy), "-lock-timeout=30s -parallelism=1 capt.tfplan");
    });
}

#[test]
fn l2_settings_of_a_backend_are_in_files_and_not_in_the_arguments() {
    let init = [
        "-backend-config=b.hcl",
        "-backend-config=secret_key=a=\"${b}\"",
        "-backend-config",
        "path=hunter2",
        "--backend-config=c.hcl",
    ];
    with_args(UserArgs { init: strings(&init), ..UserArgs::default() }, |commands| {
        let mut init = commands.init(LockFileMode::Absent);
        let files = init.move_backend_settings(Path::new("/w/.capt"));
        assert!(
            init.to_string().ends_with(
                "-backend-config=b.hcl -backend-config=/w/.capt/backend-config-0.json \
                 -backend-config=/w/.capt/backend-config-1.json --backend-config=c.hcl"
            ),
            "{init}"
        );
        let text = |at: usize| String::from_utf8(files[at].1.clone()).unwrap();
        assert_eq!(text(0), r#"{"secret_key":"a=\"$${b}\""}"#, "terraform reads it literally");
        assert_eq!(text(1), r#"{"path":"hunter2"}"#);
    });
}

#[test]
fn an_upgrade_that_the_user_asks_for_unlocks_the_lock_file() {
    with_args(UserArgs { init: strings(&["-upgrade"]), ..UserArgs::default() }, |commands| {
        let args = commands.init(LockFileMode::Provided).args;
        assert!(!args.contains(&"-lockfile=readonly".to_owned()), "terraform refuses both together");
        assert!(args.contains(&"-upgrade".to_owned()));
    });
}

#[rstest]
#[case("-json")]
#[case("--json")]
#[case("-out=elsewhere")]
#[case("-input=true")]
#[case("-var=password=canary")]
#[case("--var=password=canary")]
#[case("-var")]
#[case("-destroy")]
#[case("-refresh-only")]
#[case("-state=x.tfstate")]
#[case("-state-out=x")]
#[case("-chdir=/tmp")]
#[case("-from-module=x")]
#[case("-backend=false")]
#[case("-generate-config-out=x.tf")]
#[case("-help")]
fn arguments_that_would_break_the_driver_are_refused_in_every_list(#[case] arg: &str) {
    let with = |place: fn(&mut UserArgs) -> &mut Vec<String>| {
        let mut args = UserArgs::default();
        place(&mut args).push(arg.to_owned());
        args.validate().unwrap_err()
    };
    for (list, error) in [
        ("initArgs", with(|args| &mut args.init)),
        ("planArgs", with(|args| &mut args.plan)),
        ("applyArgs", with(|args| &mut args.apply)),
        ("destroyArgs", with(|args| &mut args.destroy)),
    ] {
        assert!(matches!(error, ArgsError::Refused { .. }), "{error}");
        assert!(error.to_string().starts_with(list), "{error}");
        assert!(!error.to_string().contains("canary"), "the value must not be repeated: {error}");
    }
}

#[test]
fn an_operand_is_refused_unless_it_is_the_value_of_the_option_before_it() {
    let plan = |args: &[&str]| UserArgs { plan: strings(args), ..UserArgs::default() }.validate();
    assert_eq!(plan(&["-target", "aws_vpc.this"]), Ok(()));
    assert!(matches!(plan(&["other.tfplan"]), Err(ArgsError::Operand { .. })));
    assert!(matches!(plan(&["-compact-warnings", "other.tfplan"]), Err(ArgsError::Operand { .. })));
    assert!(matches!(plan(&["-target=a", "b"]), Err(ArgsError::Operand { .. })));
    assert!(matches!(plan(&[""]), Err(ArgsError::Operand { .. })));
}

#[test]
fn an_address_that_looks_like_an_option_is_refused() {
    with_args(UserArgs::default(), |commands| {
        assert!(commands.untaint("-state=/etc/passwd").is_err());
        assert!(commands.state_mv("aws_vpc.this", "-state=/etc/passwd").is_err());
        assert!(commands.import("aws_vpc.this", "-json").is_err());
        assert!(commands.state_push("").is_err());
    });
}

#[test]
fn debug_output_names_the_environment_and_hides_its_values() {
    let Fixture { engine, root, .. } = fixture();
    let credentials = TerraformCredentials::Static {
        access_key_id: "AKIDCANARY".to_owned(),
        secret_access_key: "canary-secret".to_owned(),
        session_token: None,
    };
    let inputs = EnvironmentInputs {
        cli_config: Path::new("c"),
        home: Path::new("h"),
        tmp: Path::new("t"),
        credentials,
        template: &[],
    };
    let environment = Environment::build(&BTreeMap::new(), &inputs).unwrap();
    let commands =
        CommandBuilder::new(&engine, &root, &environment, UserArgs::default(), Duration::ZERO).unwrap();
    let printed = format!("{commands:?} {:?} {inputs:?}", commands.plan(PlanMode::Change));
    assert!(printed.contains("AWS_SECRET_ACCESS_KEY"));
    assert!(!printed.contains("canary-secret"), "{printed}");
}
