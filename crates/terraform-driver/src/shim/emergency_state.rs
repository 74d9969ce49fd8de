//! Emergency state.
//!
//! When terraform can write neither its state nor `errored.tfstate`, it prints the whole state, secrets included, as one line
//! of its output. That line is the only copy of completed work: it is moved from the log to `errored.tfstate`, from which the
//! next run recovers it.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::Path,
};

use crate::{
    events::{self, Event, EventKind, StreamLine},
    run::run_dir::{RunDir, RunSpec},
    state::StateSnapshots,
    workspace::files::{FileError, open_append, remove_optional, write_atomic},
};

const REPLACEMENT_LINE: &[u8] =
    br#"{"@level":"error","@message":"Emergency state dump (kept as errored.tfstate, removed from this log)","type":"log"}"#;

const INCOMPLETE_LINE: &[u8] =
    br#"{"@level":"error","@message":"incomplete line (kept below .capt/state/set-aside, removed from this log)","type":"log"}"#;

const OVERSIZED_LINE: &[u8] =
    br#"{"@level":"error","@message":"oversized line (removed from this log)","type":"log"}"#;

/// Moves an emergency state from the log to `errored.tfstate`. An incomplete one is of no use to terraform, but contains secrets
/// as well: it is moved to a file that nothing displays. The log may be larger than the memory, so it is read line by line.
pub(crate) fn extract_emergency_state(dir: &RunDir, spec: &RunSpec) -> Result<(), FileError> {
    let (path, snapshots) = (dir.events_path(), StateSnapshots::at(&spec.snapshots));
    let (mut is_ordinary, mut outcome) = (true, Ok(()));
    events::read_lines(&path, |line| {
        let StreamLine::Complete(line) = line else { return };
        let contents = classify_line(line);
        is_ordinary &= matches!(contents, LogLine::Ordinary);
        if outcome.is_ok() {
            outcome = keep_contents(line, &contents, spec, &snapshots);
        }
    })?;
    outcome?;
    if is_ordinary { Ok(()) } else { remove_states(&path) }
}

fn keep_contents(
    line: &[u8],
    contents: &LogLine,
    spec: &RunSpec,
    snapshots: &StateSnapshots,
) -> Result<(), FileError> {
    match contents {
        LogLine::Ordinary => Ok(()),
        LogLine::Incomplete => snapshots.keep_aside("events.ndjson", line),
        LogLine::EmergencyState(state) => {
            // Try both writes independently: one may succeed where the other fails for lack of space.
            let copied = snapshots.store_written(state.as_bytes());
            let kept = write_atomic(&spec.cwd.join("errored.tfstate"), state.as_bytes(), true);
            // If both fail, the log has the only copy, so it stays there.
            if copied.is_err() && kept.is_err() { kept } else { Ok(()) }
        }
    }
}

/// Replaces the log by one without states.
fn remove_states(path: &Path) -> Result<(), FileError> {
    let clean = path.with_extension("clean");
    remove_optional(&clean)?;
    let fail = |source| FileError::new("write", &clean, source);
    let (mut file, mut outcome) = (BufWriter::new(open_append(&clean)?), Ok(()));
    events::read_lines(path, |line| {
        let kept = match line {
            StreamLine::Oversized { .. } => OVERSIZED_LINE,
            StreamLine::Complete(line) => match classify_line(line) {
                LogLine::Ordinary => line,
                LogLine::Incomplete => INCOMPLETE_LINE,
                LogLine::EmergencyState(_) => REPLACEMENT_LINE,
            },
        };
        if outcome.is_ok() {
            outcome = file.write_all(kept).and_then(|()| file.write_all(b"\n"));
        }
    })?;
    let file =
        outcome.and_then(|()| file.into_inner().map_err(io::IntoInnerError::into_error)).map_err(fail)?;
    file.sync_all().map_err(fail)?;
    fs::rename(&clean, path).map_err(|source| FileError::new("write", path, source))
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
