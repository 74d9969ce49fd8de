//! The only place of this crate that starts processes and ends them.

use std::{collections::BTreeMap, ffi::OsString, io, path::Path, process::Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// What go-plugin wants to see before it believes that it was started by terraform. Public, and no secret: it keeps
/// people from starting a provider by accident.
const COOKIE: (&str, &str) =
    ("TF_PLUGIN_MAGIC_COOKIE", "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2");

/// Starts a provider with this environment and nothing else, its socket in `sockets`. A group of its own: a Ctrl-C on
/// somebody's terminal is none of its business.
#[expect(clippy::disallowed_methods, reason = "exec is where processes start")]
pub(super) fn provider(
    program: &Path,
    through: &[OsString],
    env: &BTreeMap<String, String>,
    sockets: &Path,
) -> io::Result<Child> {
    let mut command = match through {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command
        .env_clear()
        .envs(env)
        .env(COOKIE.0, COOKIE.1)
        .env("PLUGIN_PROTOCOL_VERSIONS", "5,6")
        .env("PLUGIN_UNIX_SOCKET_DIR", sockets)
        .current_dir(sockets)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        // A provider without its gateway is of no use to anybody.
        .kill_on_drop(true)
        .spawn()
}

/// Ends a provider with everything that it started.
pub(super) fn kill(pid: u32) {
    let group = i32::try_from(pid).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw);
    if let Some(group) = group {
        // One that is gone already needs no second end.
        let _gone = kill_process_group(group, Signal::KILL);
    }
}

/// Resident memory in bytes, as the kernel counts it.
pub(super) fn resident(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64))
}
