//! What is printed: a line for each case as it ends, the differences, the table.

use std::{collections::BTreeMap, fmt::Write as _, fs, time::Duration};

use anyhow::{Context as _, Result};

use crate::{config, diff::Difference};

/// Differences that are shown of one case.
const MAX_SHOWN: usize = 8;

/// How a case went.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CaseResult {
    Equal,
    Skipped(String),
    Differs(String),
    Failed(String),
}

/// One case in the report.
pub(crate) struct ReportLine {
    area: &'static str,
    pub(crate) id: String,
    duration: Duration,
    accepted: Option<String>,
    verdict: CaseResult,
    stale_recording: Option<String>,
}

impl ReportLine {
    pub(crate) fn new(area: &'static str, id: String, duration: Duration, accepted: Option<String>) -> Self {
        Self { area, id, duration, accepted, verdict: CaseResult::Equal, stale_recording: None }
    }

    pub(crate) fn set_failed(&mut self, why: String) {
        self.verdict = CaseResult::Failed(why);
    }

    pub(crate) fn set_skipped(&mut self, why: &str) {
        self.verdict = CaseResult::Skipped(why.to_owned());
    }

    pub(crate) fn set_differs(&mut self, differences: &[Difference], error: Option<String>) {
        if let Some(error) = error {
            self.verdict = CaseResult::Differs(format!("embedded-kube could not go on: {error}"));
        } else if !differences.is_empty() {
            self.verdict = CaseResult::Differs(format_differences(differences));
        }
    }

    pub(crate) fn note_recording(&mut self, comparison: Result<Vec<Difference>>) {
        self.stale_recording = match comparison {
            Ok(differences) if differences.is_empty() => None,
            Ok(differences) => Some(format_differences(&differences)),
            Err(error) => Some(format!("{error:#}")),
        };
    }

    fn is_accepted(&self) -> bool {
        self.accepted.is_some() && matches!(self.verdict, CaseResult::Differs(_))
    }

    /// A difference that is accepted but is none any more is a failure too: the list must stay true.
    fn is_needlessly_accepted(&self) -> bool {
        self.accepted.is_some() && self.verdict == CaseResult::Equal
    }

    pub(crate) fn passes(&self) -> bool {
        let is_fine =
            matches!(self.verdict, CaseResult::Equal | CaseResult::Skipped(_)) || self.is_accepted();
        is_fine && self.stale_recording.is_none() && !self.is_needlessly_accepted()
    }
}

fn format_differences(differences: &[Difference]) -> String {
    let mut text = String::new();
    for difference in differences.iter().take(MAX_SHOWN) {
        let _ = write!(text, "\n    {difference}");
    }
    if differences.len() > MAX_SHOWN {
        let _ = write!(text, "\n    … and {} more", differences.len() - MAX_SHOWN);
    }
    text
}

/// Prints a line of the report.
#[expect(clippy::print_stdout, reason = "the suite's report goes to standard output")]
pub(crate) fn print_line(text: &str) {
    println!("{text}");
}

/// Prints how one case went, where there is something to say.
pub(crate) fn progress(line: &ReportLine) {
    let took = line.duration.as_millis();
    match &line.verdict {
        CaseResult::Equal => print_line(&format!("equal    {} ({took} ms)", line.id)),
        CaseResult::Skipped(why) => print_line(&format!("seen     {} ({took} ms; {why})", line.id)),
        CaseResult::Differs(how) => {
            let word = if line.is_accepted() { "accepted" } else { "DIFFERS " };
            print_line(&format!("{word} {} ({took} ms){how}", line.id));
        }
        CaseResult::Failed(why) => print_line(&format!("FAILED   {} ({took} ms)\n    {why}", line.id)),
    }
    if let Some(stale) = &line.stale_recording {
        print_line(&format!(
            "STALE    {}: the real server does not answer as recorded; `make conformance RECORD=1` if it is right: {stale}",
            line.id
        ));
    }
    if line.is_needlessly_accepted() {
        print_line(&format!("EQUAL    {}: take it off accepted.json", line.id));
    }
}

#[derive(Default)]
struct AreaTotals {
    cases: usize,
    equal: usize,
    accepted: usize,
    differing: usize,
    other: usize,
}

fn totals_by_area(lines: &[ReportLine]) -> BTreeMap<&'static str, AreaTotals> {
    let mut sums: BTreeMap<&'static str, AreaTotals> = BTreeMap::new();
    for line in lines {
        for area in [line.area, "total"] {
            let sum = sums.entry(area).or_default();
            sum.cases += 1;
            match &line.verdict {
                CaseResult::Equal => sum.equal += 1,
                CaseResult::Differs(_) if line.accepted.is_some() => sum.accepted += 1,
                CaseResult::Differs(_) => sum.differing += 1,
                CaseResult::Failed(_) | CaseResult::Skipped(_) => sum.other += 1,
            }
        }
    }
    sums
}

fn rows(lines: &[ReportLine]) -> String {
    let mut text = String::new();
    let mut sums = totals_by_area(lines);
    let total = sums.remove("total").unwrap_or_default();
    let _ =
        writeln!(text, "| {:<14} | cases | equal | differing, accepted | differing | not compared |", "area");
    let _ = writeln!(text, "|{:-<16}|------:|------:|--------------------:|----------:|-------------:|", "");
    for (area, sum) in sums.iter().map(|(area, sum)| (*area, sum)).chain([("**total**", &total)]) {
        let AreaTotals { cases, equal, accepted, differing, other } = sum;
        let _ = writeln!(
            text,
            "| {area:<14} | {cases:>5} | {equal:>5} | {accepted:>19} | {differing:>9} | {other:>12} |"
        );
    }
    text
}

/// Prints the table and the names of the cases that do not pass.
pub(crate) fn table(lines: &[ReportLine], took: Duration) {
    print_line(&format!("\n{}", rows(lines)));
    for line in lines.iter().filter(|line| line.is_accepted()) {
        print_line(&format!("accepted: {}: {}", line.id, line.accepted.as_deref().unwrap_or_default()));
    }
    let failing: Vec<&str> =
        lines.iter().filter(|line| !line.passes()).map(|line| line.id.as_str()).collect();
    print_line(&format!("{} cases, {} not passing, {:.1} s", lines.len(), failing.len(), took.as_secs_f32()));
    for id in failing {
        print_line(&format!("  {id}"));
    }
}

/// Writes the table into the documents.
pub(crate) fn document(lines: &[ReportLine]) -> Result<()> {
    let mut text = String::from(
        "# Conformance of embedded-kube\n\n\
         Each case is run against embedded-kube and against kube-apiserver 1.36.3 with etcd 3.6.14 and\n\
         kube-controller-manager. It is equal if both answers are, after uids, times, versions and generated names are\n\
         named by their order. `make conformance` runs it; `make conformance RECORD=1` writes this file.\n\n",
    );
    text.push_str(&rows(lines));
    text.push_str("\n## Differences\n\n");
    let differing: Vec<&ReportLine> = lines
        .iter()
        .filter(|line| !matches!(line.verdict, CaseResult::Equal | CaseResult::Skipped(_)))
        .collect();
    if differing.is_empty() {
        text.push_str("None.\n");
    }
    for line in differing {
        let reason = line.accepted.as_deref().unwrap_or("not accepted: to be repaired");
        let _ = writeln!(text, "- `{}`: {reason}", line.id);
    }
    let path = config::repository_dir().join("docs/conformance.md");
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}
