//! A wrapper of terraform: this program, copied under another name. It runs the real one and records what
//! that took, so that capt's own share is known and not guessed from the difference of two noisy numbers.

use std::{
    env,
    fs::{self, OpenOptions},
    io::Write,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::Context;
use nix::sys::resource::UsageWho;
use serde::{Deserialize, Serialize};

use crate::process::cpu_time;

/// One terraform command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CommandCpu {
    /// `version`, `init`, `plan`, …
    pub(crate) command: String,
    /// By terraform and its providers.
    pub(crate) engine: Duration,
    /// By the stand-in, which does not exist outside of this bench.
    pub(crate) stand_in: Duration,
}

/// The stand-in as capt's `--engine`.
pub(crate) struct TerraformWrapper {
    pub(crate) program: PathBuf,
}

impl TerraformWrapper {
    /// Puts it into a directory, in front of the real engine.
    pub(crate) fn install(dir: &Path, real: &Path) -> anyhow::Result<Self> {
        let name = real.file_name().context("an engine without a name")?;
        let program = dir.join(name);
        fs::copy(env::current_exe()?, &program).context("copying the stand-in")?;
        fs::write(sibling_path(&program, "real"), real.as_os_str().as_encoded_bytes())?;
        Ok(Self { program })
    }

    /// What was spent since the last time.
    pub(crate) fn drain(&self) -> anyhow::Result<Vec<CommandCpu>> {
        let log = sibling_path(&self.program, "spent");
        if !log.exists() {
            return Ok(Vec::new());
        }
        let text = fs::read_to_string(&log)?;
        fs::remove_file(&log)?;
        Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    }
}

/// The stand-in's part: `None` if this process is the bench itself.
pub(crate) fn run_as_wrapper() -> Option<ExitCode> {
    let me = PathBuf::from(env::args_os().next()?);
    let real = fs::read_to_string(sibling_path(&me, "real")).ok()?;
    Some(run_real_terraform(&me, &real).unwrap_or(ExitCode::FAILURE))
}

#[expect(clippy::disallowed_methods, reason = "the stand-in passes everything on as it is")]
fn run_real_terraform(me: &Path, real: &str) -> anyhow::Result<ExitCode> {
    let status = Command::new(real).args(env::args_os().skip(1)).status()?;
    let spent = CommandCpu {
        command: env::args().nth(1).unwrap_or_default(),
        engine: cpu_time(UsageWho::RUSAGE_CHILDREN)?,
        stand_in: cpu_time(UsageWho::RUSAGE_SELF)?,
    };
    let mut log = OpenOptions::new().create(true).append(true).open(sibling_path(me, "spent"))?;
    writeln!(log, "{}", serde_json::to_string(&spent)?)?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn sibling_path(program: &Path, ending: &str) -> PathBuf {
    program.with_extension(ending)
}
