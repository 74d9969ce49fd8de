//! The driver with the real engine and its built-in resources: nothing to install, no network.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

use std::{collections::BTreeMap, ffi::OsStr, fs, path::Path};

use crate::support::{HANG_TIMEOUT, RunHarness, shim, state};
use lease_deadline::{LeaseFile, LeaseRecord, RunLease, clock as lease_clock};
use terraform_driver::{
    command::{PlanMode, UserArgs},
    engine,
    environment::{Environment, EnvironmentInputs, TerraformCredentials},
    events::TerraformProgress,
    exec::capture_output,
    plan::{DetailedPlan, GuardPolicy, PlanAction, PlanIntent, check_plan},
    planfile::PlanFile,
    run::{
        ApprovedPlan, ConfigurationDigests, Driver, RunLimits, SavedPlan, StepContext, StepError, StepPhase,
        interrupted_taints, run_dir::RunDir,
    },
    workspace::{FileToWrite, WorkspaceDir},
};
use tokio_util::sync::CancellationToken;

struct Real {
    bench: RunHarness,
    driver: Driver,
    environment: Environment,
    stop: CancellationToken,
}

fn ignore_progress(_: StepPhase, _: &TerraformProgress) {}

impl Real {
    async fn new() -> Self {
        let bench = RunHarness::new();
        let path = path_of_the_caller();
        let outer = BTreeMap::from([("PATH".to_owned(), path.clone())]);
        let candidate =
            engine::locate(None, OsStr::new(&path), Path::new("/")).expect("terraform is on PATH");
        let said =
            capture_output(&candidate.path, &["version", "-json"], &outer, bench.dir.path(), HANG_TIMEOUT)
                .await
                .unwrap();
        let cli_config = bench.dir.path().join("cli.tfrc");
        fs::write(&cli_config, "").unwrap();
        let environment = Environment::build(
            &outer,
            &EnvironmentInputs {
                cli_config: &cli_config,
                home: bench.dir.path(),
                tmp: bench.dir.path(),
                credentials: TerraformCredentials::None,
                template: &[],
            },
        )
        .unwrap();
        let engine = candidate.verify(&said.stdout).unwrap();
        let driver = Driver { engine, shim: shim(), limits: RunLimits::default() };
        Self { bench, driver, environment, stop: CancellationToken::new() }
    }

    fn workspace(&self) -> &WorkspaceDir {
        &self.bench.workspace
    }

    fn job<'a>(&'a self, args: &'a UserArgs) -> StepContext<'a> {
        StepContext {
            workspace: self.workspace(),
            environment: &self.environment,
            args,
            on_progress: &ignore_progress,
            stop: &self.stop,
            reattach: None,
            lease: None,
        }
    }

    fn write(&self, text: &str) -> ConfigurationDigests {
        let file = FileToWrite { path: "main.tf", bytes: text.as_bytes(), secret: false };
        self.workspace().sync_files([file]).unwrap();
        ConfigurationDigests { configuration: text.to_owned(), installation: "one".to_owned() }
    }

    fn runs(&self) -> Vec<String> {
        let runs = RunDir::list(&self.workspace().runs_dir()).unwrap();
        runs.iter().map(|run| run.spec().unwrap().unwrap().command).collect()
    }
}

const TWO: &str = r#"
resource "terraform_data" "one" { input = "a" }
resource "terraform_data" "two" { input = terraform_data.one.output }
output "name" { value = terraform_data.two.output }
output "secret" {
  value     = "hunter2"
  sensitive = true
}
"#;

/// These tests ask for what they apply.
fn approved(plan: SavedPlan) -> ApprovedPlan {
    plan.approve(&GuardPolicy::default(), PlanIntent::Destroy, None).unwrap()
}

#[tokio::test]
async fn a_workspace_is_made_found_unchanged_with_one_process_and_destroyed() {
    let real = Real::new().await;
    let args = UserArgs::default();
    let job = real.job(&args);
    let digests = real.write(TWO);

    real.driver.resume_and_recover(&job).await.unwrap();
    real.driver.init(&job, &digests).await.unwrap();
    let planned = real.driver.plan(&job, PlanMode::Change, &digests).await.unwrap();
    assert!(planned.has_changes);
    assert_eq!((planned.summary.counts.add, planned.summary.existing), (2, 0));
    real.driver.apply(&job, approved(planned)).await.unwrap();
    assert_eq!(real.workspace().state().unwrap().unwrap().managed_objects().count(), 2);
    assert!(!real.bench.file("capt.tfplan").exists(), "a saved plan holds secrets and goes");

    let before = real.runs().len();
    real.driver.resume_and_recover(&job).await.unwrap();
    real.driver.init(&job, &digests).await.unwrap();
    let again = real.driver.plan(&job, PlanMode::Change, &digests).await.unwrap();
    assert!(!again.has_changes);
    assert_eq!(real.runs()[before..], ["plan"]);

    let destroy = real.driver.plan(&job, PlanMode::Destroy, &digests).await.unwrap();
    assert_eq!(destroy.summary.counts.destroy, 2);
    real.driver.apply(&job, approved(destroy)).await.unwrap();
    assert!(real.workspace().state().unwrap().unwrap().is_empty());
}

#[tokio::test]
async fn h7_an_operator_that_lost_its_lease_plans_and_applies_nothing() {
    let real = Real::new().await;
    let args = UserArgs::default();
    let file = LeaseFile::in_data_directory(real.bench.dir.path());
    let lease = RunLease { file: file.clone(), fence: 1 };
    let job = StepContext { lease: Some(&lease), ..real.job(&args) };
    let digests = real.write(TWO);
    real.driver.init(&job, &digests).await.unwrap();
    let planned = real.driver.plan(&job, PlanMode::Change, &digests).await.unwrap();
    let refused = real.driver.apply(&job, approved(planned)).await.unwrap_err();
    assert!(matches!(refused, StepError::LeaseLost { phase: StepPhase::Applying }), "{refused}");
    let refused = real.driver.replace_state(&job, state("a", 1, "").as_bytes()).await.unwrap_err();
    assert!(matches!(refused, StepError::LeaseLost { phase: StepPhase::Settling }), "{refused}");
    assert!(real.workspace().state().unwrap().is_none());
    assert!(!real.runs().contains(&"apply".to_owned()), "terraform was not started");
    // The rightful leader goes on with it.
    let boot_id = lease_clock::boot_id().unwrap();
    let deadline_ms = u64::MAX;
    file.write(&LeaseRecord { holder: "a".to_owned(), fence: 1, boot_id, deadline_ms }).unwrap();
    let planned = real.driver.plan(&job, PlanMode::Change, &digests).await.unwrap();
    real.driver.apply(&job, approved(planned)).await.unwrap();
    assert_eq!(real.workspace().state().unwrap().unwrap().managed_objects().count(), 2);
}

#[tokio::test]
async fn a_plan_read_from_its_file_says_what_show_says() {
    let real = Real::new().await;
    let args = UserArgs::default();
    let job = real.job(&args);
    let digests = real.write(&format!("{TWO}\nresource \"terraform_data\" \"keyed\" {{\n  for_each = toset([\"x.y\", \"z\"])\n  triggers_replace = each.key\n}}"));
    real.driver.init(&job, &digests).await.unwrap();
    let planned = real.driver.plan(&job, PlanMode::Change, &digests).await.unwrap();
    real.driver.apply(&job, approved(planned)).await.unwrap();

    let digests = real.write(
        "resource \"terraform_data\" \"two\" { input = \"b\" }\noutput \"name\" { value = terraform_data.two.output }\n\
         resource \"terraform_data\" \"keyed\" {\n  for_each = toset([\"x.y\", \"new\"])\n  triggers_replace = \"${each.key}!\"\n}",
    );
    let planned = real.driver.plan(&job, PlanMode::Change, &digests).await.unwrap();
    let said = capture_output(
        &real.driver.engine.path,
        &["show", "-json", "capt.tfplan"],
        real.environment.variables(),
        real.workspace().root(),
        HANG_TIMEOUT,
    )
    .await
    .unwrap();
    let shown = DetailedPlan::parse(&said.stdout).unwrap().summary(planned.summary.hash.clone());
    let essence = |summary: &terraform_driver::plan::PlanSummary| {
        summary
            .changes
            .iter()
            .map(|c| (c.address.clone(), c.resource_type.clone(), c.managed, c.action, c.reason.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(essence(&planned.summary), essence(&shown));
    assert_eq!(planned.summary.counts, shown.counts);
    assert_eq!(planned.summary.existing, shown.existing);
    assert_eq!(planned.summary.outputs, shown.outputs);
    assert_eq!(
        (shown.counts.add, shown.counts.change, shown.counts.replace, shown.counts.destroy),
        (1, 1, 1, 2)
    );
}

#[tokio::test]
async fn the_hash_is_the_same_for_the_same_plan_and_another_for_any_other() {
    let real = Real::new().await;
    let args = UserArgs::default();
    let job = real.job(&args);
    let digests = real
        .write("variable \"x\" { default = \"a\" }\nresource \"terraform_data\" \"one\" { input = var.x }");
    real.driver.init(&job, &digests).await.unwrap();
    let hash = async |digests: &ConfigurationDigests| {
        real.driver.plan(&job, PlanMode::Change, digests).await.unwrap().summary.hash
    };
    let first = hash(&digests).await;
    assert_eq!(first, hash(&digests).await, "nothing changed between the two");
    fs::write(real.bench.file("terraform.tfvars.json"), r#"{"x": "b"}"#).unwrap();
    assert_ne!(first, hash(&digests).await, "a variable changed, and only the planned value tells");
    let other = ConfigurationDigests { configuration: "other".to_owned(), ..digests.clone() };
    assert_ne!(first, hash(&other).await);
    let bytes = fs::read(real.bench.file("capt.tfplan")).unwrap();
    assert!(PlanFile::parse(&bytes[..bytes.len() / 2]).is_err(), "half a plan is no plan");
}

#[tokio::test]
async fn a_failing_apply_tells_what_and_where_and_keeps_what_was_made() {
    let real = Real::new().await;
    let args = UserArgs::default();
    let job = real.job(&args);
    let digests = real.write(
        "resource \"terraform_data\" \"good\" {}\nresource \"terraform_data\" \"bad\" {\n  depends_on = [terraform_data.good]\n  provisioner \"local-exec\" { command = \"exit 7\" }\n}",
    );
    real.driver.init(&job, &digests).await.unwrap();
    let planned = real.driver.plan(&job, PlanMode::Change, &digests).await.unwrap();
    let Err(StepError::Failed { phase, diagnostics, .. }) = real.driver.apply(&job, approved(planned)).await
    else {
        panic!("it fails");
    };
    assert_eq!(phase, StepPhase::Applying);
    assert_eq!(diagnostics[0].address.as_deref(), Some("terraform_data.bad"));
    assert_eq!(real.workspace().state().unwrap().unwrap().managed_objects().count(), 2);
    assert_eq!(interrupted_taints(real.workspace()).unwrap(), Vec::<String>::new(), "it failed by itself");
}

#[tokio::test]
async fn an_interrupted_provisioner_leaves_its_object_tainted_because_nobody_knows_how_far_it_came() {
    let real = Real::new().await;
    let args = UserArgs::default();
    let job = real.job(&args);
    let slow = "resource \"terraform_data\" \"slow\" {\n  provisioner \"local-exec\" { command = \"touch begun; sleep 600\" }\n}";
    let digests = real.write(slow);
    real.driver.init(&job, &digests).await.unwrap();
    let planned = real.driver.plan(&job, PlanMode::Change, &digests).await.unwrap();
    let (applied, ()) = tokio::join!(real.driver.apply(&job, approved(planned)), async {
        real.bench.until("the provisioner", || real.bench.file("begun").exists()).await;
        real.stop.cancel();
    });
    assert!(matches!(applied, Err(StepError::Interrupted { phase: StepPhase::Applying })), "{applied:?}");
    assert_eq!(interrupted_taints(real.workspace()).unwrap(), Vec::<String>::new());

    let go_on = CancellationToken::new();
    let job = StepContext { stop: &go_on, ..real.job(&args) };
    real.driver.resume_and_recover(&job).await.unwrap();
    let replace = real.driver.plan(&job, PlanMode::Change, &digests).await.unwrap();
    assert_eq!(replace.summary.changes[0].action, PlanAction::Replace);
    assert_eq!(replace.summary.changes[0].reason.as_deref(), Some("replace_because_tainted"));
    real.driver.untaint(&job, "terraform_data.slow").await.unwrap();
    assert!(!real.driver.plan(&job, PlanMode::Change, &digests).await.unwrap().has_changes);
}

#[tokio::test]
async fn a_state_in_a_backend_of_the_users_own_is_pulled_and_read() {
    let real = Real::new().await;
    let args = UserArgs::default();
    let remote = real.workspace().clone().with_remote_state(true);
    let job = StepContext { workspace: &remote, ..real.job(&args) };
    let digests = real.write("terraform {\n  backend \"local\" { path = \"elsewhere/mine.tfstate\" }\n}\nresource \"terraform_data\" \"one\" {}");
    real.driver.init(&job, &digests).await.unwrap();
    real.driver.pull_state(&job).await.unwrap();
    assert!(remote.state().unwrap().is_none(), "nothing was applied yet");
    let planned = real.driver.plan(&job, PlanMode::Change, &digests).await.unwrap();
    real.driver.apply(&job, approved(planned)).await.unwrap();
    real.driver.pull_state(&job).await.unwrap();
    assert_eq!(remote.state().unwrap().unwrap().managed_objects().count(), 1);
    assert!(!real.bench.file("terraform.tfstate").exists());
}

#[tokio::test]
async fn a_plan_that_does_harm_needs_exactly_its_own_hash() {
    let real = Real::new().await;
    let args = UserArgs::default();
    let job = real.job(&args);
    let digests = real.write("resource \"terraform_data\" \"one\" { triggers_replace = \"a\" }");
    real.driver.init(&job, &digests).await.unwrap();
    let planned = real.driver.plan(&job, PlanMode::Change, &digests).await.unwrap();
    real.driver.apply(&job, approved(planned)).await.unwrap();
    let digests = real.write("resource \"terraform_data\" \"one\" { triggers_replace = \"b\" }");
    let planned = real.driver.plan(&job, PlanMode::Change, &digests).await.unwrap();
    let policy = GuardPolicy { protected: ["terraform_data".to_owned()].into(), max_lost_percent: None };
    let judge = |approval: Option<&str>| {
        check_plan(&planned.summary, &policy, PlanIntent::Change, approval).is_allowed()
    };
    assert!(!judge(None));
    assert!(!judge(Some("000000000000")));
    assert!(!judge(Some(&planned.summary.hash.as_str()[..8])));
    assert!(judge(Some(planned.summary.hash.as_str())));

    let refused = planned.approve(&policy, PlanIntent::Change, None).unwrap_err();
    assert_eq!(refused.reasons.len(), 1, "{:?}", refused.reasons);
    let hash = refused.plan.summary.hash.as_str().to_owned();
    let plan = refused.plan.approve(&policy, PlanIntent::Change, Some(&hash)).unwrap();
    real.driver.apply(&job, plan).await.unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a test finds terraform as its caller would")]
fn path_of_the_caller() -> String {
    std::env::var("PATH").unwrap()
}
