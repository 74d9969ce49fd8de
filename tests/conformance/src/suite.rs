//! Runs the cases against the servers and compares what they saw.

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, anyhow};
use futures::{StreamExt as _, future::BoxFuture, stream};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::{
    Context, Transcript,
    config::{Servers, Settings},
    diff::{Difference, differences},
    normalise, process, recording,
    report::{self, ReportLine},
    server_under_test::ServerUnderTest,
};

/// The longest that a case may take.
const CASE_TIMEOUT: Duration = Duration::from_mins(5);

/// What a case returns.
pub type Outcome = Result<()>;

type CaseFn = Arc<dyn for<'a> Fn(&'a mut Context) -> BoxFuture<'a, Outcome> + Send + Sync>;

/// One case: something that is done to a server, and seen.
#[derive(Clone)]
pub struct Case {
    /// What it is about.
    pub area: &'static str,
    /// What it says, unique within the area.
    pub name: String,
    run: CaseFn,
}

/// Makes a case.
pub fn case<F>(area: &'static str, name: impl Into<String>, run: F) -> Case
where
    F: for<'a> Fn(&'a mut Context) -> BoxFuture<'a, Outcome> + Send + Sync + 'static,
{
    Case { area, name: name.into(), run: Arc::new(run) }
}

/// Makes the cases of an area from functions; each is named after its function.
#[macro_export]
macro_rules! cases {
    ($area:literal: $($function:ident),+ $(,)?) => {
        vec![$($crate::case($area, stringify!($function), |c| Box::pin($function(c)))),+]
    };
}

impl Case {
    /// Area and name.
    pub fn id(&self) -> String {
        format!("{}/{}", self.area, self.name)
    }

    /// The identity that stands in names: of letters and digits, different for each case.
    fn token(&self) -> String {
        let hash = Sha256::digest(self.id().as_bytes());
        let mut token = String::from("c");
        for byte in hash.iter().take(3) {
            let _ = write!(token, "{byte:02x}");
        }
        token
    }

    async fn run_on(&self, subject: Arc<ServerUnderTest>) -> Result<Transcript> {
        let home = subject.scratch_dir_for(&self.token())?;
        let mut context = Context::new(subject, self.token(), home);
        let work = async {
            context.prepare().await?;
            (self.run)(&mut context).await
        };
        tokio::time::timeout(CASE_TIMEOUT, work).await.context("the case took too long")??;
        let (seen, keeps_managed_fields) = context.finish();
        Ok(normalise(&seen, keeps_managed_fields))
    }
}

/// What a run is made of.
pub struct SuitePlan {
    /// All cases.
    pub cases: Vec<Case>,
    /// What was asked for.
    pub settings: Settings,
}

/// The servers of a run.
struct ServersUnderTest {
    real: Option<Arc<ServerUnderTest>>,
    embedded: Option<Arc<ServerUnderTest>>,
    kubectl_version: Option<String>,
}

/// Runs them and prints the table. False where a case failed.
pub async fn run(plan: SuitePlan) -> Result<bool> {
    let SuitePlan { cases, settings } = plan;
    let cases = select_cases(cases, &settings)?;
    if settings.list {
        for case in &cases {
            report::print_line(&case.id());
        }
        return Ok(true);
    }
    let started = Instant::now();
    let subjects = ServersUnderTest::start(&settings).await?;
    let accepted = recording::accepted_differences()?;
    let mut lines: Vec<ReportLine> = stream::iter(&cases)
        .map(|case| evaluate(case, &subjects, &settings, &accepted))
        .buffer_unordered(settings.parallelism)
        .inspect(report::progress)
        .collect()
        .await;
    lines.sort_by(|left, right| left.id.cmp(&right.id));
    let is_whole = settings.filters.is_empty();
    report::table(&lines, started.elapsed());
    if settings.record && is_whole && subjects.real.is_some() && subjects.embedded.is_some() {
        report::document(&lines)?;
    }
    if subjects.real.is_none() {
        report::print_line(
            "\n!!! (b) WAS SKIPPED: no real control plane was asked, so only the recordings were compared.",
        );
        report::print_line("!!! `make conformance` builds one (Go is needed) and runs both.");
    }
    Ok(lines.iter().all(ReportLine::passes) && (subjects.real.is_some() || !settings.require_real))
}

fn select_cases(cases: Vec<Case>, settings: &Settings) -> Result<Vec<Case>> {
    let mut tokens = BTreeMap::new();
    for case in &cases {
        if let Some(other) = tokens.insert(case.token(), case.id()) {
            return Err(anyhow!("{} and {other} have the same identity; rename one", case.id()));
        }
    }
    Ok(cases.into_iter().filter(|case| settings.selects(&case.id())).collect())
}

impl ServersUnderTest {
    async fn start(settings: &Settings) -> Result<Self> {
        let kubectl = settings
            .real_bin
            .as_ref()
            .map(|bin| bin.join("kubectl"))
            .filter(|kubectl| kubectl.is_file())
            .unwrap_or_else(|| PathBuf::from("kubectl"));
        let real = match &settings.real_bin {
            Some(bin) if settings.servers != Servers::Embedded => {
                Some(Arc::new(ServerUnderTest::real(bin, kubectl.clone()).await?))
            }
            _ => None,
        };
        let embedded = match settings.servers {
            Servers::Real => None,
            _ => Some(Arc::new(ServerUnderTest::embedded(kubectl.clone(), settings.in_process).await?)),
        };
        let kubectl_version = process::kubectl_version(&kubectl).await;
        Ok(Self { real, embedded, kubectl_version })
    }
}

/// Runs one case everywhere and says how it went.
async fn evaluate(
    case: &Case,
    subjects: &ServersUnderTest,
    settings: &Settings,
    accepted: &BTreeMap<String, String>,
) -> ReportLine {
    let id = case.id();
    let started = Instant::now();
    let (real, embedded) = futures::join!(
        run_if_present(case, subjects.real.as_ref()),
        run_if_present(case, subjects.embedded.as_ref())
    );
    let kubectl = subjects.kubectl_version.as_deref();
    let mut line = ReportLine::new(case.area, id.clone(), started.elapsed(), accepted.get(&id).cloned());
    let expected = match real {
        Some(Err(error)) => {
            line.set_failed(format!("the real server: {error:#}"));
            return line;
        }
        Some(Ok(seen)) => {
            line.note_recording(check_recording(&id, &seen, settings.record, kubectl));
            Some(seen)
        }
        None => match recording::read(&id, kubectl) {
            Ok(recorded) => recorded,
            Err(error) => {
                line.set_failed(format!("{error:#}"));
                return line;
            }
        },
    };
    match (expected, embedded) {
        (_, None) => line.set_skipped("embedded-kube was left out"),
        (None, Some(_)) => line.set_skipped("no recording that fits this kubectl"),
        (Some(_), Some(Err(error))) => line.set_differs(&[], Some(format!("{error:#}"))),
        (Some(expected), Some(Ok(actual))) => line.set_differs(&differences(&expected, &actual), None),
    }
    line
}

async fn run_if_present(case: &Case, subject: Option<&Arc<ServerUnderTest>>) -> Option<Result<Transcript>> {
    Some(case.run_on(Arc::clone(subject?)).await)
}

/// Compares the real server's answer with the recording, or makes it the recording.
fn check_recording(
    id: &str,
    seen: &Transcript,
    record: bool,
    kubectl: Option<&str>,
) -> Result<Vec<Difference>> {
    if record {
        recording::write(id, seen, kubectl)?;
        return Ok(Vec::new());
    }
    match recording::read(id, kubectl)? {
        Some(recorded) => Ok(differences(&recorded, seen)),
        None => Err(anyhow!("there is no recording")),
    }
}
