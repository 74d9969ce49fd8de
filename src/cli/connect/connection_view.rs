//! State of the tunnel agent: one line redrawn in place on a terminal, one line per change elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use owo_colors::OwoColorize as _;
use sandbox_router::tunnel::{
    PortReport,
    agent::{AgentState, AgentStatus},
};
use tokio::sync::watch;

use super::super::{output, time};

/// How often the line is redrawn to update its elapsed time.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);
/// How often a log repeats that the router is unreachable; one line per attempt would be one per second.
const REMINDER_INTERVAL: Duration = Duration::from_mins(1);

/// Shows the agent's state until its channel closes.
pub(super) async fn show_connection(mut view: watch::Receiver<AgentStatus>) {
    if output::is_stderr_terminal() {
        let style = ProgressStyle::with_template("{wide_msg}");
        let bar =
            ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        loop {
            bar.set_message(status_line(&view.borrow_and_update()));
            // Redraws the elapsed time even if nothing else changed.
            if let Ok(Err(_gone)) = tokio::time::timeout(REDRAW_INTERVAL, view.changed()).await {
                return;
            }
        }
    }
    let mut log = ConnectionLog::default();
    loop {
        let line = log.next_line(&view.borrow_and_update(), Instant::now());
        if let Some(line) = line {
            output::print_message(&line);
        }
        if view.changed().await.is_err() {
            return;
        }
    }
}

/// The whole state in one line.
fn status_line(view: &AgentStatus) -> String {
    let since = time::format_duration(view.since.elapsed());
    let state = match &view.state {
        AgentState::Connecting => format!("{} connecting", "·".dimmed()),
        AgentState::Connected => {
            let rtt = view.rtt.map(|it| format!("  {:.1} ms", it.as_secs_f64() * 1000.0)).unwrap_or_default();
            format!("{} {}  {since}{rtt}  {} request(s)", "✓".green(), connected_label(view), view.requests)
        }
        AgentState::Waiting { why, .. } => format!("{} {why}; retrying", "!".yellow()),
    };
    format!("{state}{}", unreachable_ports(view))
}

/// Lines already printed to a log.
#[derive(Default)]
struct ConnectionLog {
    last: String,
    outage: Option<Outage>,
}

/// The router is unreachable.
struct Outage {
    since: Instant,
    reported_at: Instant,
}

impl ConnectionLog {
    /// The next line to print: each state once, without counters.
    fn next_line(&mut self, view: &AgentStatus, now: Instant) -> Option<String> {
        let text = match &view.state {
            AgentState::Waiting { why, .. } => self.retry_line(why, now)?,
            AgentState::Connecting if self.outage.is_none() && view.connections == 0 => {
                "connecting".to_owned()
            }
            // The result of an attempt is logged, not the attempt.
            AgentState::Connecting => return None,
            AgentState::Connected => {
                self.outage = None;
                format!("{}{}", connected_label(view), unreachable_ports(view))
            }
        };
        if text == self.last {
            return None;
        }
        self.last.clone_from(&text);
        Some(text)
    }

    fn retry_line(&mut self, why: &str, now: Instant) -> Option<String> {
        let Some(away) = &mut self.outage else {
            self.outage = Some(Outage { since: now, reported_at: now });
            return Some(format!("{why}; retrying"));
        };
        if now.duration_since(away.reported_at) < REMINDER_INTERVAL {
            return None;
        }
        away.reported_at = now;
        Some(format!("{why}; retrying for {}", time::format_duration(now.duration_since(away.since))))
    }
}

fn connected_label(view: &AgentStatus) -> String {
    view.user.as_ref().map_or_else(|| "connected".to_owned(), |user| format!("connected as {user}"))
}

/// The unreachable local ports. Ports are probed only after the first connection.
fn unreachable_ports(view: &AgentStatus) -> String {
    let ports: &[PortReport] = match view.state {
        AgentState::Connecting if view.connections == 0 => &[],
        _ => &view.ports,
    };
    let silent = ports.iter().filter(|it| !it.reachable);
    let words = silent.map(|it| {
        format!("; nothing listens at {}: {}", it.to_local, it.last_error.as_deref().unwrap_or("no answer"))
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(state: AgentState, reachable: bool) -> AgentStatus {
        AgentStatus {
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

    fn waiting(why: &str) -> AgentState {
        AgentState::Waiting { why: why.to_owned(), pause: Duration::ZERO }
    }

    #[test]
    fn a_log_says_who_is_connected_and_what_does_not_answer() {
        let (mut log, now) = (ConnectionLog::default(), Instant::now());
        let mut says = |reachable| log.next_line(&view(AgentState::Connected, reachable), now);
        assert_eq!(says(true).as_deref(), Some("connected as ann"));
        assert_eq!(says(true), None, "it is said already");
        assert_eq!(
            says(false).as_deref(),
            Some("connected as ann; nothing listens at localhost:3000: connection refused")
        );
        assert_eq!(says(true).as_deref(), Some("connected as ann"));
    }

    #[test]
    fn a_router_that_is_away_is_a_line_and_one_for_each_minute_and_one_when_it_is_back() {
        let (mut log, begun) = (ConnectionLog::default(), Instant::now());
        let mut said = Vec::new();
        let mut hear = |second: u64, state: AgentState| {
            said.extend(log.next_line(&view(state, true), begun + Duration::from_secs(second)));
        };
        hear(0, AgentState::Connected);
        for second in 1..150 {
            hear(second, waiting(if second == 1 { "the connection broke" } else { "cannot reach it" }));
            hear(second, AgentState::Connecting);
        }
        hear(150, AgentState::Connected);
        let expected = [
            "connected as ann",
            "the connection broke; retrying",
            "cannot reach it; retrying for 1m00s",
            "cannot reach it; retrying for 2m00s",
            "connected as ann",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_router_that_was_never_there_is_told_once() {
        let (mut log, now) = (ConnectionLog::default(), Instant::now());
        let mut said = Vec::new();
        for _ in 0..5 {
            for state in [AgentState::Connecting, waiting("cannot reach it")] {
                let fresh = AgentStatus { connections: 0, ..view(state, false) };
                said.extend(log.next_line(&fresh, now));
            }
        }
        assert_eq!(said, ["connecting", "cannot reach it; retrying"]);
    }

    #[test]
    fn the_line_of_a_terminal_has_figures() {
        let line = status_line(&view(AgentState::Connected, true));
        assert!(line.contains("12.0 ms") && line.contains("3 request(s)"), "{line}");
    }
}
