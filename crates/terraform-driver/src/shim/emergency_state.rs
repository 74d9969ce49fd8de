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

/// Moves an emergency state from the log to `errored.tfstate`.
pub(crate) fn extract_emergency_state(dir: &RunDir, spec: &RunSpec) -> Result<(), FileError> {
    let path = dir.events_path();
    let Some(log) = read_optional(&path)? else { return Ok(()) };
    let Some(state) = log.split(|byte| *byte == b'\n').find_map(parse_emergency_state) else { return Ok(()) };
    // Try both writes independently: one may succeed where the other fails for lack of space.
    let copied = StateSnapshots::at(&spec.snapshots).store_if_newer(state.as_bytes());
    let kept = write_atomic(&spec.cwd.join("errored.tfstate"), state.as_bytes(), true);
    if copied.is_err() && kept.is_err() {
        // The log has the only copy, so keep it there.
        return kept;
    }
    let clean: Vec<&[u8]> = log
        .split(|byte| *byte == b'\n')
        .map(|line| if parse_emergency_state(line).is_some() { REPLACEMENT_LINE } else { line })
        .collect();
    write_atomic(&path, &clean.join(&b'\n'), true)
}

/// The emergency state of a line: a JSON object or a string with its text, depending on the version.
fn parse_emergency_state(line: &[u8]) -> Option<String> {
    let EventKind::EmergencyState(raw) = Event::parse(line).kind else { return None };
    let raw = raw.0.get();
    Some(serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned()))
}
