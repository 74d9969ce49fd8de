//! Terraform wrappers that log the start and end of each command with its workspace.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// A terraform of a test's own.
pub(crate) struct RecordingTerraform {
    dir: TempDir,
}

/// One line of the diary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogEntry {
    /// Nanoseconds since 1970.
    pub(crate) time_ns: u128,
    /// Whether the command began here, or ended.
    pub(crate) is_start: bool,
    pub(crate) pid: u32,
    pub(crate) command: String,
    pub(crate) workspace: String,
}

impl RecordingTerraform {
    /// The real terraform, with a log.
    pub(crate) fn real() -> Self {
        Self::new("\"$real\" \"$@\"\ncode=$?\nnote stop \"$1\"\nexit $code")
    }

    /// A terraform that logs its start and fails immediately: for tests of what happens before terraform runs.
    pub(crate) fn failing() -> Self {
        Self::new("echo 'there is no terraform here' >&2\nexit 1")
    }

    fn new(rest: &str) -> Self {
        let it = Self { dir: tempfile::tempdir().unwrap() };
        let script = format!(
            "#!/bin/bash\nreal={real}\nif [ \"$1\" = version ]; then exec \"$real\" \"$@\"; fi\n\
             note() {{ echo \"$(date +%s%N) $1 $$ $2 ${{PWD##*/}}\" >> {log}; }}\nnote start \"$1\"\n{rest}\n",
            real = find_terraform().display(),
            log = it.log_path().display(),
        );
        fs::write(it.path(), script).unwrap();
        fs::set_permissions(it.path(), fs::Permissions::from_mode(0o700)).unwrap();
        it
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("terraform")
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("diary")
    }

    /// All entries, in order.
    pub(crate) fn entries(&self) -> Vec<LogEntry> {
        let text = fs::read_to_string(self.log_path()).unwrap_or_default();
        let mut all: Vec<LogEntry> = text.lines().map(parse_entry).collect();
        all.sort_by_key(|it| it.time_ns);
        all
    }

    /// Number of started commands of this name.
    pub(crate) fn count_starts(&self, command: &str) -> usize {
        self.entries().iter().filter(|it| it.is_start && it.command == command).count()
    }
}

fn parse_entry(line: &str) -> LogEntry {
    let parts: Vec<&str> = line.split(' ').collect();
    let [at, what, pid, command, workspace] = parts[..] else { panic!("no entry of a diary: {line}") };
    LogEntry {
        time_ns: at.parse().unwrap(),
        is_start: what == "start",
        pid: pid.parse().unwrap(),
        command: command.to_owned(),
        workspace: workspace.to_owned(),
    }
}

/// The terraform on `PATH`.
#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
fn find_terraform() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).map(|dir| dir.join("terraform"));
    all.into_iter().find(|it: &PathBuf| Path::is_file(it)).expect("terraform is on the PATH")
}
