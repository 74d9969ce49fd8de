//! What the agent is doing: one line that is redrawn on a terminal, a line for each change elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use owo_colors::OwoColorize as _;
use sandbox_router::tunnel::{
    PortReport,
    agent::{State, View},
};
use tokio::sync::watch;

use super::super::{output, time};

/// How often the line is redrawn, for its clock.
const REDRAW: Duration = Duration::from_secs(1);
/// How often a log hears that the router is still away: every attempt would be a line each second.
const REMIND: Duration = Duration::from_mins(1);

/// Shows it for as long as there is something to show.
pub(super) async fn show(mut view: watch::Receiver<View>) {
    if output::is_watched() {
        let style = ProgressStyle::with_template("{wide_msg}");
        let bar =
            ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        loop {
            bar.set_message(line(&view.borrow_and_update()));
            // The clock moves even if nothing else does.
            if let Ok(Err(_gone)) = tokio::time::timeout(REDRAW, view.changed()).await {
                return;
            }
        }
    }
    let mut log = Log::default();
    loop {
        let line = log.line(&view.borrow_and_update(), Instant::now());
        if let Some(line) = line {
            output::say(&line);
        }
        if view.changed().await.is_err() {
            return;
        }
    }
}

/// Everything in one line.
fn line(view: &View) -> String {
    let since = time::short(view.since.elapsed());
    let state = match &view.state {
        State::Connecting => format!("{} connecting", "·".dimmed()),
        State::Connected => {
            let rtt = view.rtt.map(|it| format!("  {:.1} ms", it.as_secs_f64() * 1000.0)).unwrap_or_default();
            format!("{} {}  {since}{rtt}  {} request(s)", "✓".green(), connected(view), view.requests)
        }
        State::Waiting { why, .. } => format!("{} {why}; tries again", "!".yellow()),
    };
    format!("{state}{}", ports(view))
}

/// What was said where nobody watches.
#[derive(Default)]
struct Log {
    last: String,
    away: Option<Away>,
}

/// The router is away.
struct Away {
    since: Instant,
    said: Instant,
}

impl Log {
    /// What is worth a line now: each state once, without figures.
    fn line(&mut self, view: &View, now: Instant) -> Option<String> {
        let text = match &view.state {
            State::Waiting { why, .. } => self.waiting(why, now)?,
            State::Connecting if self.away.is_none() && view.connections == 0 => "connecting".to_owned(),
            // How it ends is worth a line, not that it is tried.
            State::Connecting => return None,
            State::Connected => {
                self.away = None;
                format!("{}{}", connected(view), ports(view))
            }
        };
        if text == self.last {
            return None;
        }
        self.last.clone_from(&text);
        Some(text)
    }

    fn waiting(&mut self, why: &str, now: Instant) -> Option<String> {
        let Some(away) = &mut self.away else {
            self.away = Some(Away { since: now, said: now });
            return Some(format!("{why}; tries again"));
        };
        if now.duration_since(away.said) < REMIND {
            return None;
        }
        away.said = now;
        Some(format!("{why}; has been trying for {}", time::short(now.duration_since(away.since))))
    }
}

fn connected(view: &View) -> String {
    view.user.as_ref().map_or_else(|| "connected".to_owned(), |user| format!("connected as {user}"))
}

/// The ports on which nobody answers. Before the first connection none was looked at.
fn ports(view: &View) -> String {
    let ports: &[PortReport] = match view.state {
        State::Connecting if view.connections == 0 => &[],
        _ => &view.ports,
    };
    let silent = ports.iter().filter(|it| !it.reachable);
    let words = silent.map(|it| {
        format!("; nothing answers at {}: {}", it.to_local, it.last_error.as_deref().unwrap_or("no answer"))
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(state: State, reachable: bool) -> View {
        View {
            state,
            since: Instant::now(),
            user: Some("ann".to_owned()),
            epoch: 1,
            connections: 1,
            requests: 3,
            rtt: Some(Duration::from_millis(12)),
            ports: vec![PortReport {
                port: 8080,
                to_local: "localhost:3000".to_owned(),
                reachable,
                last_error: (!reachable).then(|| "connection refused".to_owned()),
            }],
        }
    }

    fn waiting(why: &str) -> State {
        State::Waiting { why: why.to_owned(), pause: Duration::ZERO }
    }

    #[test]
    fn a_log_says_who_is_connected_and_what_does_not_answer() {
        let (mut log, now) = (Log::default(), Instant::now());
        let mut says = |reachable| log.line(&view(State::Connected, reachable), now);
        assert_eq!(says(true).as_deref(), Some("connected as ann"));
        assert_eq!(says(true), None, "it is said already");
        assert_eq!(
            says(false).as_deref(),
            Some("connected as ann; nothing answers at localhost:3000: connection refused")
        );
        assert_eq!(says(true).as_deref(), Some("connected as ann"));
    }

    #[test]
    fn a_router_that_is_away_is_a_line_and_one_for_each_minute_and_one_when_it_is_back() {
        let (mut log, begun) = (Log::default(), Instant::now());
        let mut said = Vec::new();
        let mut hear = |second: u64, state: State| {
            said.extend(log.line(&view(state, true), begun + Duration::from_secs(second)));
        };
        hear(0, State::Connected);
        for second in 1..150 {
            hear(second, waiting(if second == 1 { "the connection broke" } else { "cannot reach it" }));
            hear(second, State::Connecting);
        }
        hear(150, State::Connected);
        let expected = [
            "connected as ann",
            "the connection broke; tries again",
            "cannot reach it; has been trying for 1m00s",
            "cannot reach it; has been trying for 2m00s",
            "connected as ann",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_router_that_was_never_there_is_told_once() {
        let (mut log, now) = (Log::default(), Instant::now());
        let mut said = Vec::new();
        for _ in 0..5 {
            for state in [State::Connecting, waiting("cannot reach it")] {
                let fresh = View { connections: 0, ..view(state, false) };
                said.extend(log.line(&fresh, now));
            }
        }
        assert_eq!(said, ["connecting", "cannot reach it; tries again"]);
    }

    #[test]
    fn the_line_of_a_terminal_has_figures() {
        let line = line(&view(State::Connected, true));
        assert!(line.contains("12.0 ms") && line.contains("3 request(s)"), "{line}");
    }
}
