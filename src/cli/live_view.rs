//! Live view of the object tree: redrawn in place on a terminal, one line per change elsewhere.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal},
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use terraform_driver::clock;
use tokio::time::Instant;

use super::{
    object_watch::ObjectWatch,
    output, time,
    tree::{HealthState, TreeLine, TreeNode, tree_lines},
};

/// How often the view is refreshed.
const REFRESH_INTERVAL: Duration = Duration::from_millis(200);
/// How often a log repeats that a long step is still running.
const REMINDER_INTERVAL: Duration = Duration::from_secs(30);

/// Where the tree is shown.
pub(super) enum LiveView {
    /// A line per object, redrawn in place.
    Terminal { bars: MultiProgress, drawn: Vec<ProgressBar> },
    /// A line per change.
    Log { reported: BTreeMap<String, (String, Instant)>, print: fn(&str) },
    /// Nowhere.
    Hidden,
}

impl LiveView {
    /// On standard error, separate from data.
    pub(super) fn on_stderr() -> Self {
        if output::is_stderr_terminal() {
            return Self::on_terminal(ProgressDrawTarget::stderr());
        }
        Self::Log { reported: BTreeMap::new(), print: output::print_message }
    }

    /// On standard output, as data.
    pub(super) fn on_stdout() -> Self {
        if io::stdout().is_terminal() {
            return Self::on_terminal(ProgressDrawTarget::stdout());
        }
        let tell = |text: &str| {
            let _nobody_reads = output::print_data(&format!("{text}\n"));
        };
        Self::Log { reported: BTreeMap::new(), print: tell }
    }

    fn on_terminal(target: ProgressDrawTarget) -> Self {
        Self::Terminal { bars: MultiProgress::with_draw_target(target), drawn: Vec::new() }
    }

    /// Shows the current lines.
    pub(super) fn update(&mut self, lines: &[TreeLine]) {
        match self {
            Self::Terminal { bars, drawn } => draw_lines(bars, drawn, lines),
            Self::Log { reported: said, print: tell } => {
                for text in changed_lines(said, lines, Instant::now()) {
                    tell(&text);
                }
            }
            Self::Hidden => {}
        }
    }

    /// Removes the tree from the terminal; the caller prints the final one.
    pub(super) fn clear(&mut self) {
        if let Self::Terminal { bars, drawn } = self {
            drawn.clear();
            let _a_terminal_that_is_gone = bars.clear();
        }
    }
}

/// Refreshes the view until `done` returns a result.
pub(super) async fn follow_trees<T>(
    watched: &ObjectWatch,
    show: &mut LiveView,
    keep: impl Fn(Vec<TreeNode>) -> Vec<TreeNode>,
    mut done: impl FnMut(&[TreeNode]) -> Option<T>,
) -> T {
    let mut look = tokio::time::interval(REFRESH_INTERVAL);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let trees = keep(watched.trees());
        show.update(&tree_lines(&trees, clock::now()));
        if let Some(outcome) = done(&trees) {
            return outcome;
        }
    }
}

fn draw_lines(bars: &MultiProgress, drawn: &mut Vec<ProgressBar>, lines: &[TreeLine]) {
    while drawn.len() > lines.len() {
        if let Some(bar) = drawn.pop() {
            bars.remove(&bar);
        }
    }
    while drawn.len() < lines.len() {
        let style = ProgressStyle::with_template("{wide_msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
        drawn.push(bars.add(ProgressBar::new_spinner()).with_style(style));
    }
    let width = lines.iter().map(|line| line.label.chars().count()).max().unwrap_or_default();
    for (bar, line) in drawn.iter().zip(lines) {
        let elapsed = line
            .elapsed
            .filter(|_| line.state.shows_elapsed())
            .map(time::format_duration)
            .unwrap_or_default();
        let message = line.message.as_deref().filter(|_| !line.has_unfinished_children);
        let message = message.map(|message| format!("  {message}")).unwrap_or_default();
        bar.set_message(format!(
            "{} {:<width$}  {elapsed:>6}  {}{message}",
            line.state.symbol(),
            line.label,
            line.text
        ));
    }
}

/// One text per line that changed since the last refresh.
fn changed_lines(
    said: &mut BTreeMap<String, (String, Instant)>,
    lines: &[TreeLine],
    now: Instant,
) -> Vec<String> {
    let mut texts = Vec::new();
    for line in lines {
        let is_news = match said.get(&line.id) {
            None => line.state != HealthState::Waiting,
            Some((news, at)) => {
                let goes_on = matches!(line.state, HealthState::Working | HealthState::Deleting)
                    && !line.has_unfinished_children;
                *news != line.change_key || (goes_on && now.duration_since(*at) >= REMINDER_INTERVAL)
            }
        };
        if is_news {
            let message = line.message.as_deref().filter(|_| !line.has_unfinished_children);
            let message = message.map(|message| format!(": {message}")).unwrap_or_default();
            texts.push(format!("{}: {}{message}", line.id, line.text));
            said.insert(line.id.clone(), (line.change_key.clone(), now));
        }
    }
    let is_there = |id: &String| lines.iter().any(|line| line.id == *id);
    let gone: Vec<String> = said.keys().filter(|id| !is_there(id)).cloned().collect();
    for id in gone {
        texts.push(format!("{id}: deleted"));
        said.remove(&id);
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(state: HealthState, text: &str) -> TreeLine {
        TreeLine {
            id: "wtapply default/demo".to_owned(),
            change_key: text.split(' ').next().unwrap_or_default().to_owned(),
            has_unfinished_children: false,
            state,
            label: "wtapply demo".to_owned(),
            text: text.to_owned(),
            elapsed: None,
            message: None,
        }
    }

    #[test]
    fn a_log_says_what_changed_and_reminds_of_what_takes_long() {
        let (mut said, begun) = (BTreeMap::new(), Instant::now());
        let mut at = |seconds: u64, lines: &[TreeLine]| {
            changed_lines(&mut said, lines, begun + Duration::from_secs(seconds))
        };
        assert!(at(0, &[line(HealthState::Waiting, "waits")]).is_empty(), "waiting alone is no news");
        assert_eq!(
            at(1, &[line(HealthState::Working, "applying 1/9")]),
            ["wtapply default/demo: applying 1/9"]
        );
        assert!(at(2, &[line(HealthState::Working, "applying 2/9")]).is_empty(), "only time has passed");
        assert_eq!(
            at(40, &[line(HealthState::Working, "applying 3/9")]),
            ["wtapply default/demo: applying 3/9"]
        );
        assert_eq!(at(41, &[line(HealthState::Ready, "ready")]), ["wtapply default/demo: ready"]);
        assert!(at(200, &[line(HealthState::Ready, "ready")]).is_empty());
        assert_eq!(at(201, &[]), ["wtapply default/demo: deleted"]);
        assert!(at(202, &[]).is_empty());
    }

    #[test]
    fn what_something_below_says_is_not_said_twice() {
        let (mut said, begun) = (BTreeMap::new(), Instant::now());
        let mut above = TreeLine { has_unfinished_children: true, ..line(HealthState::Working, "Creating") };
        above.message = Some("demo-vpc is applying".to_owned());
        let lines = [above];
        assert_eq!(changed_lines(&mut said, &lines, begun), ["wtapply default/demo: Creating"]);
        assert!(changed_lines(&mut said, &lines, begun + REMINDER_INTERVAL).is_empty());
    }
}
