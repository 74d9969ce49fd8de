//! Emergency state.
//!
//! When terraform can write neither its state nor `errored.tfstate`, it prints the whole state, secrets included, as one line
//! of its output. That line is the only copy of completed work: it is moved from the log to `errored.tfstate`, from which the
//! next run recovers it.

use crate::{
    events::{Event, EventKind},
    run::run_dir::{RunDir, RunSpec},
    state::StateSnapshots,
    workspace::files::{FileError, read_optional, write_atomic},
};

const REPLACEMENT_LINE: &[u8] =
    br#"{"@level":"error","@message":"Emergency state dump (kept as errored.tfstate, removed from this log)","type":"log"}"#;

const INCOMPLETE_LINE: &[u8] =
    br#"{"@level":"error","@message":"incomplete line (kept below .capt/state/set-aside, removed from this log)","type":"log"}"#;

/// Moves an emergency state from the log to `errored.tfstate`. An incomplete one is of no use to terraform, but contains secrets
/// as well: it is moved to a file that nothing displays.
pub(crate) fn extract_emergency_state(dir: &RunDir, spec: &RunSpec) -> Result<(), FileError> {
    let path = dir.events_path();
    let Some(log) = read_optional(&path)? else { return Ok(()) };
    let lines: Vec<_> = log.split(|byte| *byte == b'\n').map(|line| (line, classify_line(line))).collect();
    let snapshots = StateSnapshots::at(&spec.snapshots);
    for (line, contents) in &lines {
        match contents {
            LogLine::Ordinary => {}
            LogLine::Incomplete => snapshots.keep_aside("events.ndjson", line)?,
            LogLine::EmergencyState(state) => {
                // Try both writes independently: one may succeed where the other fails for lack of space.
                let copied = snapshots.store_written(state.as_bytes());
                let kept = write_atomic(&spec.cwd.join("errored.tfstate"), state.as_bytes(), true);
                if copied.is_err() && kept.is_err() {
                    // The log has the only copy, so keep it there.
                    return kept;
                }
            }
        }
    }
    if lines.iter().all(|(_, contents)| matches!(contents, LogLine::Ordinary)) {
        return Ok(());
    }
    let clean = lines.iter().map(|(line, contents)| match contents {
        LogLine::Ordinary => *line,
        LogLine::Incomplete => INCOMPLETE_LINE,
        LogLine::EmergencyState(_) => REPLACEMENT_LINE,
    });
    write_atomic(&path, &clean.collect::<Vec<_>>().join(&b'\n'), true)
}

/// Contents of a line of the log.
enum LogLine {
    Ordinary,
    /// The beginning of an event.
    Incomplete,
    EmergencyState(String),
}

/// The emergency state is a JSON object or a string with its text, depending on the version.
fn classify_line(line: &[u8]) -> LogLine {
    match Event::parse(line).kind {
        EventKind::EmergencyState(raw) => {
            let raw = raw.0.get();
            let text = serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned());
            LogLine::EmergencyState(text)
        }
        EventKind::Incomplete => LogLine::Incomplete,
        _ => LogLine::Ordinary,
    }
}
