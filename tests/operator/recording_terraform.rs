//! Terraforms that keep a diary: when each command began and ended, and where.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// A terraform of a test's own.
pub(crate) struct Scripted {
    dir: TempDir,
}

/// One line of the diary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Nanoseconds since 1970.
    pub(crate) at: u128,
    /// Whether the command began here, or ended.
    pub(crate) begins: bool,
    pub(crate) pid: u32,
    pub(crate) command: String,
    pub(crate) workspace: String,
}

impl Scripted {
    /// The real terraform, with a diary.
    pub(crate) fn real() -> Self {
        Self::new("\"$real\" \"$@\"\ncode=$?\nnote stop \"$1\"\nexit $code")
    }

    /// One that notes that it was started, and fails at once: for what happens before terraform works.
    pub(crate) fn failing() -> Self {
        Self::new("echo 'there is no terraform here' >&2\nexit 1")
    }

    fn new(rest: &str) -> Self {
        let it = Self { dir: tempfile::tempdir().unwrap() };
        let script = format!(
            "#!/bin/bash\nreal={real}\nif [ \"$1\" = version ]; then exec \"$real\" \"$@\"; fi\n\
             note() {{ echo \"$(date +%s%N) $1 $$ $2 ${{PWD##*/}}\" >> {log}; }}\nnote start \"$1\"\n{rest}\n",
            real = terraform().display(),
            log = it.log().display(),
        );
        fs::write(it.path(), script).unwrap();
        fs::set_permissions(it.path(), fs::Permissions::from_mode(0o700)).unwrap();
        it
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("terraform")
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("diary")
    }

    /// Everything that was noted, in order.
    pub(crate) fn diary(&self) -> Vec<Entry> {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let mut all: Vec<Entry> = text.lines().map(entry).collect();
        all.sort_by_key(|it| it.at);
        all
    }

    /// How many commands of this name began.
    pub(crate) fn begun(&self, command: &str) -> usize {
        self.diary().iter().filter(|it| it.begins && it.command == command).count()
    }
}

fn entry(line: &str) -> Entry {
    let parts: Vec<&str> = line.split(' ').collect();
    let [at, what, pid, command, workspace] = parts[..] else { panic!("no entry of a diary: {line}") };
    Entry {
        at: at.parse().unwrap(),
        begins: what == "start",
        pid: pid.parse().unwrap(),
        command: command.to_owned(),
        workspace: workspace.to_owned(),
    }
}

/// The terraform that everybody else finds.
#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
fn terraform() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).map(|dir| dir.join("terraform"));
    all.into_iter().find(|it: &PathBuf| Path::is_file(it)).expect("terraform is on the PATH")
}
