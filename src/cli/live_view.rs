//! Shows a tree while it changes: redrawn in place on a terminal, a line for each change elsewhere.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal},
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use terraform_driver::clock;
use tokio::time::Instant;

use super::{
    output, time,
    tree::{Line, Node, State, lines},
    watch::Watched,
};

/// How often is looked.
const LOOK: Duration = Duration::from_millis(200);
/// How often somebody who reads a log hears that a long step still goes on.
const REMIND: Duration = Duration::from_secs(30);

/// Where a tree is shown.
pub(super) enum Show {
    /// A line per object, redrawn in place.
    Terminal { bars: MultiProgress, drawn: Vec<ProgressBar> },
    /// A line per change.
    Log { said: BTreeMap<String, (String, Instant)>, tell: fn(&str) },
    /// Nowhere.
    Nothing,
}

impl Show {
    /// Beside the data: on standard error.
    pub(super) fn talk() -> Self {
        if output::is_watched() {
            return Self::terminal(ProgressDrawTarget::stderr());
        }
        Self::Log { said: BTreeMap::new(), tell: output::say }
    }

    /// As the data: on standard output.
    pub(super) fn data() -> Self {
        if io::stdout().is_terminal() {
            return Self::terminal(ProgressDrawTarget::stdout());
        }
        let tell = |text: &str| {
            let _nobody_reads = output::data(&format!("{text}\n"));
        };
        Self::Log { said: BTreeMap::new(), tell }
    }

    fn terminal(target: ProgressDrawTarget) -> Self {
        Self::Terminal { bars: MultiProgress::with_draw_target(target), drawn: Vec::new() }
    }

    /// Shows how it is now.
    pub(super) fn update(&mut self, lines: &[Line]) {
        match self {
            Self::Terminal { bars, drawn } => draw(bars, drawn, lines),
            Self::Log { said, tell } => {
                for text in news(said, lines, Instant::now()) {
                    tell(&text);
                }
            }
            Self::Nothing => {}
        }
    }

    /// Takes the tree away again; what stays is printed by the caller.
    pub(super) fn clear(&mut self) {
        if let Self::Terminal { bars, drawn } = self {
            drawn.clear();
            let _a_terminal_that_is_gone = bars.clear();
        }
    }
}

/// Looks again and again until `done` has seen enough.
pub(super) async fn follow<T>(
    watched: &Watched,
    show: &mut Show,
    keep: impl Fn(Vec<Node>) -> Vec<Node>,
    mut done: impl FnMut(&[Node]) -> Option<T>,
) -> T {
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let trees = keep(watched.trees());
        show.update(&lines(&trees, clock::now()));
        if let Some(outcome) = done(&trees) {
            return outcome;
        }
    }
}

fn draw(bars: &MultiProgress, drawn: &mut Vec<ProgressBar>, lines: &[Line]) {
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
        let elapsed = line.elapsed.filter(|_| line.state.has_clock()).map(time::short).unwrap_or_default();
        let message = line.message.as_deref().filter(|_| !line.leads);
        let message = message.map(|message| format!("  {message}")).unwrap_or_default();
        bar.set_message(format!(
            "{} {:<width$}  {elapsed:>6}  {}{message}",
            line.state.sign(),
            line.label,
            line.text
        ));
    }
}

/// What is new since the last look, a line each.
fn news(said: &mut BTreeMap<String, (String, Instant)>, lines: &[Line], now: Instant) -> Vec<String> {
    let mut texts = Vec::new();
    for line in lines {
        let is_news = match said.get(&line.id) {
            None => line.state != State::Waiting,
            Some((news, at)) => {
                let goes_on = matches!(line.state, State::Working | State::Deleting) && !line.leads;
                *news != line.news || (goes_on && now.duration_since(*at) >= REMIND)
            }
        };
        if is_news {
            let message = line.message.as_deref().filter(|_| !line.leads);
            let message = message.map(|message| format!(": {message}")).unwrap_or_default();
            texts.push(format!("{}: {}{message}", line.id, line.text));
            said.insert(line.id.clone(), (line.news.clone(), now));
        }
    }
    let is_there = |id: &String| lines.iter().any(|line| line.id == *id);
    let gone: Vec<String> = said.keys().filter(|id| !is_there(id)).cloned().collect();
    for id in gone {
        texts.push(format!("{id}: gone"));
        said.remove(&id);
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(state: State, text: &str) -> Line {
        Line {
            id: "wtapply default/demo".to_owned(),
            news: text.split(' ').next().unwrap_or_default().to_owned(),
            leads: false,
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
        let mut at =
            |seconds: u64, lines: &[Line]| news(&mut said, lines, begun + Duration::from_secs(seconds));
        assert!(at(0, &[line(State::Waiting, "waits")]).is_empty(), "waiting alone is no news");
        assert_eq!(at(1, &[line(State::Working, "applying 1/9")]), ["wtapply default/demo: applying 1/9"]);
        assert!(at(2, &[line(State::Working, "applying 2/9")]).is_empty(), "only time has passed");
        assert_eq!(at(40, &[line(State::Working, "applying 3/9")]), ["wtapply default/demo: applying 3/9"]);
        assert_eq!(at(41, &[line(State::Ready, "ready")]), ["wtapply default/demo: ready"]);
        assert!(at(200, &[line(State::Ready, "ready")]).is_empty());
        assert_eq!(at(201, &[]), ["wtapply default/demo: gone"]);
        assert!(at(202, &[]).is_empty());
    }

    #[test]
    fn what_something_below_says_is_not_said_twice() {
        let (mut said, begun) = (BTreeMap::new(), Instant::now());
        let mut above = Line { leads: true, ..line(State::Working, "Creating") };
        above.message = Some("demo-vpc is applying".to_owned());
        let lines = [above];
        assert_eq!(news(&mut said, &lines, begun), ["wtapply default/demo: Creating"]);
        assert!(news(&mut said, &lines, begun + REMIND).is_empty());
    }
}
