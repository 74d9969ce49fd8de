//! The only place in this crate that starts and kills processes.

use std::{collections::BTreeMap, ffi::OsString, fs::File, io, path::Path, process::Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// go-plugin's magic cookie. It is public and not a secret: it prevents people from starting a provider by accident.
const MAGIC_COOKIE: (&str, &str) =
    ("TF_PLUGIN_MAGIC_COOKIE", "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2");

/// The file that a process has open as its standard input.
pub(super) const STANDARD_INPUT: &str = "/proc/self/fd/0";

/// Starts a provider with this environment, and its socket and temporary files in `sockets`, in its own process group so that Ctrl-C
/// on a terminal does not reach it. What runs is the open file, as standard input; its path is only a name.
#[expect(clippy::disallowed_methods, reason = "exec is where processes start")]
pub(super) fn spawn_provider(
    (program, file): (&Path, &File),
    through: &[OsString],
    env: &BTreeMap<String, String>,
    sockets: &Path,
) -> io::Result<Child> {
    let mut command = match through {
        [] => {
            let mut command = Command::new(STANDARD_INPUT);
            command.arg0(program);
            command
        }
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command
        // Providers do not read it.
        .stdin(Stdio::from(file.try_clone()?))
        .env_clear()
        .envs(env)
        .env(MAGIC_COOKIE.0, MAGIC_COOKIE.1)
        .env("PLUGIN_PROTOCOL_VERSIONS", "5,6")
        .env("PLUGIN_UNIX_SOCKET_DIR", sockets)
        // Removed with the process, and not visible to other providers.
        .env("TMPDIR", sockets)
        .current_dir(sockets)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        // A provider is useless without its gateway.
        .kill_on_drop(true)
        .spawn()
}

/// Kills a provider and everything that it started.
pub(super) fn kill_process_tree(pid: u32) {
    let group = i32::try_from(pid).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw);
    if let Some(group) = group {
        // The group may already be gone.
        let _gone = kill_process_group(group, Signal::KILL);
    }
}

/// Resident memory in bytes.
pub(super) fn resident_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn h8_what_runs_is_the_open_file_and_not_the_one_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let (name, mark) = (dir.path().join("provider"), dir.path().join("started"));
        std::fs::write(&name, format!("#!/bin/sh\n: > {}\n", mark.display())).unwrap();
        std::fs::set_permissions(&name, std::fs::Permissions::from_mode(0o755)).unwrap();
        let file = File::open("/bin/echo").unwrap();
        let child = spawn_provider((&name, &file), &[], &BTreeMap::new(), dir.path()).unwrap();
        let said = child.wait_with_output().await.unwrap();
        assert!(said.status.success() && said.stdout == b"\n", "{said:?}");
        assert!(!mark.exists());
    }
}
