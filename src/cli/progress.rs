//! Progress of plan, apply and destroy: one line per workspace on a terminal, one line per change elsewhere.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use capt_engine::oneshot::{ProgressBoard, ProgressLine, WorkspaceStage};
use capt_model::workspaces::WorkspaceKey;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use owo_colors::OwoColorize;
use terraform_driver::clock;

use super::{output, time};

/// How often the display is refreshed.
const REFRESH_INTERVAL: Duration = Duration::from_millis(150);
/// How often a log repeats that a long step is still running.
const REMINDER_INTERVAL: Duration = Duration::from_secs(30);

/// Shows the progress until the future is dropped.
pub(super) async fn show_progress(board: &ProgressBoard, bars: Option<&MultiProgress>) {
    match bars {
        Some(bars) => TerminalView::new(bars).follow(board).await,
        None => LogView::default().follow(board).await,
    }
}

/// The text after the workspace name.
fn stage_text(line: &ProgressLine) -> String {
    match &line.stage {
        WorkspaceStage::Waiting { on } if on.is_empty() => "waiting".to_owned(),
        WorkspaceStage::Waiting { on } => format!("waiting for {}", join_keys(on)),
        WorkspaceStage::Queued { on } => format!("waiting for {on}"),
        WorkspaceStage::Running(phase) => running_text(&phase.to_string(), line),
        WorkspaceStage::Retrying { reason } => format!("retrying: {reason}"),
        WorkspaceStage::Done { what } => what.clone(),
        WorkspaceStage::Failed { reason } => reason.clone(),
    }
}

fn running_text(phase: &str, line: &ProgressLine) -> String {
    let mut text = phase.to_owned();
    if line.total > 0 {
        let _always_ok = write!(text, "  {}/{}", line.done, line.total);
    }
    if let Some((address, elapsed)) = &line.slowest {
        let _always_ok = write!(text, "  {address} {}", time::format_duration(*elapsed));
    }
    text
}

fn join_keys(keys: &[WorkspaceKey]) -> String {
    keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn stage_symbol(stage: &WorkspaceStage) -> String {
    match stage {
        WorkspaceStage::Done { .. } => "✓".green().to_string(),
        WorkspaceStage::Failed { .. } => "✗".red().to_string(),
        WorkspaceStage::Retrying { .. } => "!".yellow().to_string(),
        WorkspaceStage::Waiting { .. } | WorkspaceStage::Queued { .. } => "·".dimmed().to_string(),
        WorkspaceStage::Running(_) => "▸".cyan().to_string(),
    }
}

/// A line per workspace, redrawn in place.
struct TerminalView<'a> {
    bars: &'a MultiProgress,
    by_key: BTreeMap<WorkspaceKey, ProgressBar>,
}

impl<'a> TerminalView<'a> {
    fn new(bars: &'a MultiProgress) -> Self {
        Self { bars, by_key: BTreeMap::new() }
    }

    async fn follow(&mut self, board: &ProgressBoard) {
        let mut look = tokio::time::interval(REFRESH_INTERVAL);
        loop {
            look.tick().await;
            self.draw(&board.lines());
        }
    }

    fn draw(&mut self, lines: &[ProgressLine]) {
        let width = lines.iter().map(|line| line.key.to_string().len()).max().unwrap_or_default();
        for line in lines {
            let bar = self.by_key.entry(line.key.clone()).or_insert_with(|| {
                let bar = self.bars.add(ProgressBar::new_spinner());
                let style = ProgressStyle::with_template("{wide_msg}");
                bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
            });
            let age = clock::now().duration_since(line.since);
            let age = Duration::try_from(age).unwrap_or_default();
            let clock = if line.stage.is_final() {
                String::new()
            } else {
                format!("{:>6}  ", time::format_duration(age))
            };
            bar.set_message(format!(
                "{} {:<width$}  {clock}{}",
                stage_symbol(&line.stage),
                line.key.to_string(),
                stage_text(line)
            ));
        }
    }
}

/// One line per change.
#[derive(Default)]
struct LogView {
    reported: BTreeMap<WorkspaceKey, (WorkspaceStage, tokio::time::Duration)>,
}

impl LogView {
    async fn follow(&mut self, board: &ProgressBoard) {
        let begun = tokio::time::Instant::now();
        let mut look = tokio::time::interval(REFRESH_INTERVAL);
        loop {
            look.tick().await;
            self.report(&board.lines(), begun.elapsed());
        }
    }

    fn report(&mut self, lines: &[ProgressLine], now: Duration) {
        for line in lines {
            let news = match self.reported.get(&line.key) {
                None => !matches!(line.stage, WorkspaceStage::Waiting { .. }),
                Some((stage, at)) => {
                    *stage != line.stage
                        || (matches!(stage, WorkspaceStage::Running(_))
                            && now.saturating_sub(*at) >= REMINDER_INTERVAL)
                }
            };
            // Final states are reported once, at the end.
            if news && !line.stage.is_final() {
                output::print_message(&format!("{}: {}", line.key, stage_text(line)));
            }
            if news {
                self.reported.insert(line.key.clone(), (line.stage.clone(), now));
            }
        }
    }
}
