//! Runs the cases: one control plane for a group, the cases beside each other, each in a namespace of its own.

use std::{panic::AssertUnwindSafe, process::ExitCode, sync::Arc, time::Duration};

use conformance::config::Settings;
use futures::{FutureExt as _, StreamExt as _, future::LocalBoxFuture, stream};
use tokio::time::Instant;

use crate::harness::ContractHarness;

/// The longest that a case may take on a busy machine.
const CASE_TIMEOUT: Duration = Duration::from_mins(20);

/// What a case does; it panics where it fails.
pub(crate) type CaseFn = fn(Arc<ContractHarness>) -> LocalBoxFuture<'static, ()>;

/// One case.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: CaseFn,
}

/// Cases from functions; each is named after its function.
macro_rules! cases {
    ($($module:ident::$function:ident),* $(,)?) => {
        vec![$($crate::suite::Case {
            name: stringify!($function),
            run: |world| Box::pin($crate::$module::$function(world)),
        }),*]
    };
}
pub(crate) use cases;

/// Cases on one control plane.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    /// Beside each other.
    pub(crate) parallel: Vec<Case>,
    /// One by one, because they end the operator or touch what all share.
    pub(crate) serial: Vec<Case>,
    /// After all others, and only with all of them: they judge what was logged.
    pub(crate) last: Vec<Case>,
}

impl Group {
    fn all(&self) -> impl Iterator<Item = &Case> {
        self.parallel.iter().chain(&self.serial).chain(&self.last)
    }
}

/// Reads the arguments as the default harness would, and runs what they choose.
pub(crate) fn main(groups: Vec<Group>) -> ExitCode {
    let settings = Settings::read();
    if settings.list {
        groups.iter().flat_map(Group::all).for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    let Some(bin) = settings.real_bin.clone() else {
        let text = "there is no real control plane (scripts/real-kube build), so the contract was NOT tested";
        eprintln!("{}: {text}", if settings.require_real { "error" } else { "notice" });
        return if settings.require_real { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let failed: Vec<&str> = runtime.block_on(async {
        let mut failed = Vec::new();
        for group in groups {
            failed.extend(run_group(group, &bin, &settings).await);
        }
        failed
    });
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run_group(group: Group, bin: &std::path::Path, settings: &Settings) -> Vec<&'static str> {
    let chosen = |cases: &[Case]| -> Vec<Case> {
        cases.iter().copied().filter(|case| settings.selects(case.name)).collect()
    };
    let (together, alone) = (chosen(&group.parallel), chosen(&group.serial));
    let last = if settings.filters.is_empty() { group.last } else { Vec::new() };
    if together.is_empty() && alone.is_empty() {
        return Vec::new();
    }
    if !ContractHarness::has_binaries(group.name, bin) {
        let text =
            "Cluster API's core is not built (scripts/real-kube build --all), so it was NOT tested with it";
        eprintln!("{}: {text}", if settings.require_real { "error" } else { "notice" });
        return if settings.require_real { vec![group.name] } else { Vec::new() };
    }
    let began = Instant::now();
    let world = Arc::new(ContractHarness::start(group.name, bin).await);
    println!("{}: ready after {:.1} s", group.name, began.elapsed().as_secs_f64());
    let mut failed: Vec<Option<&str>> = stream::iter(together)
        .map(|case| run_case(case, Arc::clone(&world)))
        .buffer_unordered(if settings.parallelism == 1 { 1 } else { 4 })
        .collect()
        .await;
    for case in alone.into_iter().chain(last) {
        failed.push(run_case(case, Arc::clone(&world)).await);
    }
    world.shut_down().await;
    println!("{}: over after {:.1} s", group.name, began.elapsed().as_secs_f64());
    failed.into_iter().flatten().collect()
}

async fn run_case(case: Case, world: Arc<ContractHarness>) -> Option<&'static str> {
    let began = Instant::now();
    let work = tokio::time::timeout(CASE_TIMEOUT, AssertUnwindSafe((case.run)(world)).catch_unwind());
    let outcome = match work.await {
        Ok(Ok(())) => "ok",
        Ok(Err(_)) => "FAILED",
        Err(_) => "FAILED (it took too long)",
    };
    println!("test {} ... {outcome} ({:.1} s)", case.name, began.elapsed().as_secs_f64());
    (outcome != "ok").then_some(case.name)
}
