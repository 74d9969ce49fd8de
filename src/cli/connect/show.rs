//! What the agent is doing: one line that is redrawn on a terminal, a line for each change elsewhere.

use std::time::Duration;

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
    let mut last = String::new();
    loop {
        let text = change(&view.borrow_and_update());
        if text != last {
            output::say(&text);
            last = text;
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

/// What is worth a line in a log: no clock, no figures.
fn change(view: &View) -> String {
    let state = match &view.state {
        State::Connecting if view.connections == 0 => "connecting".to_owned(),
        State::Connecting => "connecting again".to_owned(),
        State::Connected => connected(view),
        State::Waiting { why, .. } => format!("{why}; tries again"),
    };
    format!("{state}{}", ports(view))
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
    use std::time::Instant;

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

    #[test]
    fn a_log_says_who_is_connected_and_what_does_not_answer() {
        assert_eq!(change(&view(State::Connected, true)), "connected as ann");
        assert_eq!(
            change(&view(State::Connected, false)),
            "connected as ann; nothing answers at localhost:3000: connection refused"
        );
        let waiting = State::Waiting { why: "cannot reach it".to_owned(), pause: Duration::ZERO };
        assert_eq!(change(&view(waiting, true)), "cannot reach it; tries again");
    }

    #[test]
    fn the_line_of_a_terminal_has_figures() {
        let line = line(&view(State::Connected, true));
        assert!(line.contains("12.0 ms") && line.contains("3 request(s)"), "{line}");
    }
}
