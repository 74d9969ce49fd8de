//! Captures the logs of operators in this process and of their terraform runs, for failing tests.

use std::{
    collections::VecDeque,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use capt::telemetry::{LogFormat, build_subscriber};

use super::in_process_operator::log_filter;

const TAIL_LINES: usize = 40;

static LOG: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Installs a subscriber that keeps the last log lines. With `CAPT_LOG` they are also printed immediately.
pub(crate) fn start() {
    let filter = if log_filter() == "error" { "info".to_owned() } else { log_filter() };
    let (log, _) = build_subscriber(LogFormat::Text, &filter, || LogWriter).unwrap();
    // Another test of this process may have installed it.
    let _already = tracing::dispatcher::set_global_default(log);
}

struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = LOG.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(String::from_utf8_lossy(bytes).lines().map(str::to_owned));
        let old = kept.len().saturating_sub(TAIL_LINES);
        kept.drain(..old);
        if log_filter() != "error" {
            io::stderr().write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The tail of the operator's log, and of terraform's output in the last run of every workspace.
pub(crate) fn tail(data: &Path) -> String {
    let kept = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text =
        format!("the last lines of the operator:\n{}\n", kept.iter().cloned().collect::<Vec<_>>().join("\n"));
    for workspace in
        sorted_entries(&data.join("workspaces")).iter().flat_map(|namespace| sorted_entries(namespace))
    {
        let Some(run) = sorted_entries(&workspace.join(".capt/runs")).pop() else { continue };
        for file in ["events.ndjson", "stderr.log"] {
            let whole = fs::read_to_string(run.join(file)).unwrap_or_default();
            let lines: Vec<&str> = whole.lines().collect();
            let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
            if !last.is_empty() {
                text.extend([&run.join(file).display().to_string(), ":\n", &last.join("\n"), "\n"]);
            }
        }
    }
    text
}

/// Entries of a directory, sorted by name.
fn sorted_entries(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|it| it.path()).collect();
    all.sort();
    all
}
