//! Shows the board: a line per workspace on a terminal, a line per change elsewhere.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use owo_colors::OwoColorize;
use terraform_driver::clock;

use super::{output, time};
use crate::{
    blueprint::Key,
    oneshot::{Board, Line, Stage},
};

/// How often the board is looked at.
const LOOK: Duration = Duration::from_millis(150);
/// How often somebody who reads a log hears that a long step still goes on.
const REMIND: Duration = Duration::from_secs(30);

/// Shows a board until it is dropped by its caller.
pub(super) async fn show(board: &Board, bars: Option<&MultiProgress>) {
    match bars {
        Some(bars) => Terminal::new(bars).follow(board).await,
        None => Log::default().follow(board).await,
    }
}

/// What a line says after the name.
fn text(line: &Line) -> String {
    match &line.stage {
        Stage::Waiting { on } if on.is_empty() => "waiting".to_owned(),
        Stage::Waiting { on } => format!("waits for {}", names(on)),
        Stage::Queued { on } => format!("waits for {on}"),
        Stage::Running(phase) => running(&phase.to_string(), line),
        Stage::Retrying { reason } => format!("tries again soon: {reason}"),
        Stage::Done { what } => what.clone(),
        Stage::Failed { reason } => reason.clone(),
    }
}

fn running(phase: &str, line: &Line) -> String {
    let mut text = phase.to_owned();
    if line.total > 0 {
        let _always_ok = write!(text, "  {}/{}", line.done, line.total);
    }
    if let Some((address, elapsed)) = &line.slowest {
        let _always_ok = write!(text, "  {address} {}", time::short(*elapsed));
    }
    text
}

fn names(keys: &[Key]) -> String {
    keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn sign(stage: &Stage) -> String {
    match stage {
        Stage::Done { .. } => "✓".green().to_string(),
        Stage::Failed { .. } => "✗".red().to_string(),
        Stage::Retrying { .. } => "!".yellow().to_string(),
        Stage::Waiting { .. } | Stage::Queued { .. } => "·".dimmed().to_string(),
        Stage::Running(_) => "▸".cyan().to_string(),
    }
}

/// A line per workspace, redrawn in place.
struct Terminal<'a> {
    bars: &'a MultiProgress,
    by_key: BTreeMap<Key, ProgressBar>,
}

impl<'a> Terminal<'a> {
    fn new(bars: &'a MultiProgress) -> Self {
        Self { bars, by_key: BTreeMap::new() }
    }

    async fn follow(&mut self, board: &Board) {
        let mut look = tokio::time::interval(LOOK);
        loop {
            look.tick().await;
            self.draw(&board.lines());
        }
    }

    fn draw(&mut self, lines: &[Line]) {
        let width = lines.iter().map(|line| line.key.to_string().len()).max().unwrap_or_default();
        for line in lines {
            let bar = self.by_key.entry(line.key.clone()).or_insert_with(|| {
                let bar = self.bars.add(ProgressBar::new_spinner());
                let style = ProgressStyle::with_template("{wide_msg}");
                bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
            });
            let age = clock::now().duration_since(line.since);
            let age = Duration::try_from(age).unwrap_or_default();
            let clock =
                if line.stage.is_final() { String::new() } else { format!("{:>6}  ", time::short(age)) };
            bar.set_message(format!(
                "{} {:<width$}  {clock}{}",
                sign(&line.stage),
                line.key.to_string(),
                text(line)
            ));
        }
    }
}

/// A line for each change.
#[derive(Default)]
struct Log {
    said: BTreeMap<Key, (Stage, tokio::time::Duration)>,
}

impl Log {
    async fn follow(&mut self, board: &Board) {
        let begun = tokio::time::Instant::now();
        let mut look = tokio::time::interval(LOOK);
        loop {
            look.tick().await;
            self.report(&board.lines(), begun.elapsed());
        }
    }

    fn report(&mut self, lines: &[Line], now: Duration) {
        for line in lines {
            let news = match self.said.get(&line.key) {
                None => !matches!(line.stage, Stage::Waiting { .. }),
                Some((stage, at)) => {
                    *stage != line.stage
                        || (matches!(stage, Stage::Running(_)) && now.saturating_sub(*at) >= REMIND)
                }
            };
            // How it ended is said once, at the end.
            if news && !line.stage.is_final() {
                output::say(&format!("{}: {}", line.key, text(line)));
            }
            if news {
                self.said.insert(line.key.clone(), (line.stage.clone(), now));
            }
        }
    }
}
