//! What is printed: a line for each case as it ends, the differences, the table.

use std::{collections::BTreeMap, fmt::Write as _, fs, time::Duration};

use anyhow::{Context as _, Result};

use crate::{config, diff::Difference};

/// Differences that are shown of one case.
const SHOWN: usize = 8;

/// How a case went.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Equal,
    Skipped(String),
    Differs(String),
    Failed(String),
}

/// One case in the report.
pub(crate) struct Line {
    area: &'static str,
    pub(crate) id: String,
    took: Duration,
    accepted: Option<String>,
    verdict: Verdict,
    stale: Option<String>,
}

impl Line {
    pub(crate) fn new(area: &'static str, id: String, took: Duration, accepted: Option<String>) -> Self {
        Self { area, id, took, accepted, verdict: Verdict::Equal, stale: None }
    }

    pub(crate) fn failure(&mut self, why: String) {
        self.verdict = Verdict::Failed(why);
    }

    pub(crate) fn skipped(&mut self, why: &str) {
        self.verdict = Verdict::Skipped(why.to_owned());
    }

    pub(crate) fn differs(&mut self, differences: &[Difference], error: Option<String>) {
        if let Some(error) = error {
            self.verdict = Verdict::Differs(format!("embedded-kube could not go on: {error}"));
        } else if !differences.is_empty() {
            self.verdict = Verdict::Differs(told(differences));
        }
    }

    pub(crate) fn note_recording(&mut self, comparison: Result<Vec<Difference>>) {
        self.stale = match comparison {
            Ok(differences) if differences.is_empty() => None,
            Ok(differences) => Some(told(&differences)),
            Err(error) => Some(format!("{error:#}")),
        };
    }

    fn is_accepted(&self) -> bool {
        self.accepted.is_some() && matches!(self.verdict, Verdict::Differs(_))
    }

    /// A difference that is accepted but is none any more is a failure too: the list must stay true.
    fn is_accepted_in_vain(&self) -> bool {
        self.accepted.is_some() && self.verdict == Verdict::Equal
    }

    pub(crate) fn passes(&self) -> bool {
        let is_fine = matches!(self.verdict, Verdict::Equal | Verdict::Skipped(_)) || self.is_accepted();
        is_fine && self.stale.is_none() && !self.is_accepted_in_vain()
    }
}

fn told(differences: &[Difference]) -> String {
    let mut text = String::new();
    for difference in differences.iter().take(SHOWN) {
        let _ = write!(text, "\n    {difference}");
    }
    if differences.len() > SHOWN {
        let _ = write!(text, "\n    … and {} more", differences.len() - SHOWN);
    }
    text
}

/// Prints a line of the report.
#[expect(clippy::print_stdout, reason = "the suite's report goes to standard output")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

/// Prints how one case went, where there is something to say.
pub(crate) fn progress(line: &Line) {
    let took = line.took.as_millis();
    match &line.verdict {
        Verdict::Equal => say(&format!("equal    {} ({took} ms)", line.id)),
        Verdict::Skipped(why) => say(&format!("seen     {} ({took} ms; {why})", line.id)),
        Verdict::Differs(how) => {
            let word = if line.is_accepted() { "accepted" } else { "DIFFERS " };
            say(&format!("{word} {} ({took} ms){how}", line.id));
        }
        Verdict::Failed(why) => say(&format!("FAILED   {} ({took} ms)\n    {why}", line.id)),
    }
    if let Some(stale) = &line.stale {
        say(&format!(
            "STALE    {}: the real server does not answer as recorded; `make conformance RECORD=1` if it is right: {stale}",
            line.id
        ));
    }
    if line.is_accepted_in_vain() {
        say(&format!("EQUAL    {}: take it off accepted.json", line.id));
    }
}

#[derive(Default)]
struct Sum {
    cases: usize,
    equal: usize,
    accepted: usize,
    differing: usize,
    other: usize,
}

fn sums(lines: &[Line]) -> BTreeMap<&'static str, Sum> {
    let mut sums: BTreeMap<&'static str, Sum> = BTreeMap::new();
    for line in lines {
        for area in [line.area, "total"] {
            let sum = sums.entry(area).or_default();
            sum.cases += 1;
            match &line.verdict {
                Verdict::Equal => sum.equal += 1,
                Verdict::Differs(_) if line.accepted.is_some() => sum.accepted += 1,
                Verdict::Differs(_) => sum.differing += 1,
                Verdict::Failed(_) | Verdict::Skipped(_) => sum.other += 1,
            }
        }
    }
    sums
}

fn rows(lines: &[Line]) -> String {
    let mut text = String::new();
    let mut sums = sums(lines);
    let total = sums.remove("total").unwrap_or_default();
    let _ =
        writeln!(text, "| {:<14} | cases | equal | differing, accepted | differing | not compared |", "area");
    let _ = writeln!(text, "|{:-<16}|------:|------:|--------------------:|----------:|-------------:|", "");
    for (area, sum) in sums.iter().map(|(area, sum)| (*area, sum)).chain([("**total**", &total)]) {
        let Sum { cases, equal, accepted, differing, other } = sum;
        let _ = writeln!(
            text,
            "| {area:<14} | {cases:>5} | {equal:>5} | {accepted:>19} | {differing:>9} | {other:>12} |"
        );
    }
    text
}

/// Prints the table and the names of the cases that do not pass.
pub(crate) fn table(lines: &[Line], took: Duration) {
    say(&format!("\n{}", rows(lines)));
    for line in lines.iter().filter(|line| line.is_accepted()) {
        say(&format!("accepted: {}: {}", line.id, line.accepted.as_deref().unwrap_or_default()));
    }
    let failing: Vec<&str> =
        lines.iter().filter(|line| !line.passes()).map(|line| line.id.as_str()).collect();
    say(&format!("{} cases, {} not passing, {:.1} s", lines.len(), failing.len(), took.as_secs_f32()));
    for id in failing {
        say(&format!("  {id}"));
    }
}

/// Writes the table into the documents.
pub(crate) fn document(lines: &[Line]) -> Result<()> {
    let mut text = String::from(
        "# Conformance of embedded-kube\n\n\
         Each case is run against embedded-kube and against kube-apiserver 1.36.3 with etcd 3.6.14 and\n\
         kube-controller-manager. It is equal if both answers are, after uids, times, versions and generated names are\n\
         named by their order. `make conformance` runs it; `make conformance RECORD=1` writes this file.\n\n",
    );
    text.push_str(&rows(lines));
    text.push_str("\n## Differences\n\n");
    let differing: Vec<&Line> =
        lines.iter().filter(|line| !matches!(line.verdict, Verdict::Equal | Verdict::Skipped(_))).collect();
    if differing.is_empty() {
        text.push_str("None.\n");
    }
    for line in differing {
        let reason = line.accepted.as_deref().unwrap_or("not accepted: to be repaired");
        let _ = writeln!(text, "- `{}`: {reason}", line.id);
    }
    let path = config::repository().join("docs/conformance.md");
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}
