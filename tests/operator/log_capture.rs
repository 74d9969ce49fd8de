//! What the operators of this process logged and what their terraforms wrote, for a test that fails.

use std::{
    collections::VecDeque,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use capt::telemetry::{LogFormat, log};

use super::running::log_filter;

const LINES: usize = 40;

static LOG: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Keeps the last lines of the log. With `CAPT_LOG` it is printed, too, as it is written.
pub(crate) fn keep() {
    let filter = if log_filter() == "error" { "info".to_owned() } else { log_filter() };
    let (log, _) = log(LogFormat::Text, &filter, || Kept).unwrap();
    // Another test of this process may have installed it.
    let _already = tracing::dispatcher::set_global_default(log);
}

struct Kept;

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = LOG.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(String::from_utf8_lossy(bytes).lines().map(str::to_owned));
        let old = kept.len().saturating_sub(LINES);
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

/// The end of the operator's log, and of what terraform wrote in the last run of every workspace.
pub(crate) fn tail(data: &Path) -> String {
    let kept = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text =
        format!("the last lines of the operator:\n{}\n", kept.iter().cloned().collect::<Vec<_>>().join("\n"));
    for workspace in below(&data.join("workspaces")).iter().flat_map(|namespace| below(namespace)) {
        let Some(run) = below(&workspace.join(".capt/runs")).pop() else { continue };
        for file in ["events.ndjson", "stderr.log"] {
            let whole = fs::read_to_string(run.join(file)).unwrap_or_default();
            let lines: Vec<&str> = whole.lines().collect();
            let last = &lines[lines.len().saturating_sub(LINES)..];
            if !last.is_empty() {
                text.extend([&run.join(file).display().to_string(), ":\n", &last.join("\n"), "\n"]);
            }
        }
    }
    text
}

/// What is in a directory, in the order of its names.
fn below(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|it| it.path()).collect();
    all.sort();
    all
}
