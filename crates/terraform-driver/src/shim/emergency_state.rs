//! The emergency dump.
//!
//! When terraform can write neither its state nor `errored.tfstate`, it prints the whole state, secrets
//! included, as one line of its output. That line is the only copy of finished work: it goes to
//! `errored.tfstate`, where the next plan takes it in, and leaves the log.

use crate::{
    events::{Event, Kind},
    run::record::{RunDir, RunSpec},
    state::Snapshots,
    workspace::files::{FileError, read_optional, write_atomic},
};

const REPLACEMENT: &[u8] =
    br#"{"@level":"error","@message":"Emergency state dump (kept as errored.tfstate, removed from this log)","type":"log"}"#;

/// Moves a dump, if there is one, out of the log.
pub(crate) fn take_in(dir: &RunDir, spec: &RunSpec) -> Result<(), FileError> {
    let path = dir.events();
    let Some(log) = read_optional(&path)? else { return Ok(()) };
    let Some(state) = log.split(|byte| *byte == b'\n').find_map(state_in) else { return Ok(()) };
    // Each write is tried whatever became of the others: where one finds no room, another may.
    let copied = Snapshots::at(&spec.snapshots).offer(state.as_bytes());
    let kept = write_atomic(&spec.cwd.join("errored.tfstate"), state.as_bytes(), true);
    if copied.is_err() && kept.is_err() {
        // The log is the only place that has it; it stays there.
        return kept;
    }
    let clean: Vec<&[u8]> = log
        .split(|byte| *byte == b'\n')
        .map(|line| if state_in(line).is_some() { REPLACEMENT } else { line })
        .collect();
    write_atomic(&path, &clean.join(&b'\n'), true)
}

/// The dump is either an object or its text, depending on the version.
fn state_in(line: &[u8]) -> Option<String> {
    let Kind::EmergencyState(raw) = Event::parse(line).kind else { return None };
    let raw = raw.0.get();
    Some(serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned()))
}
