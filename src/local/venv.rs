//! The virtual environment that runs moto: created in the cache directory on first use, guarded by a lock.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use capt_engine::process_env::ProcessEnv;
use terraform_driver::{
    exec::{CapturedOutput, capture_output},
    workspace::{
        FileLock, LockError,
        files::{FileError, create_private_dir, read_optional, write_atomic},
    },
};
use thiserror::Error;

/// The pinned packages; an environment with other requirements is recreated.
pub const REQUIREMENTS: &str = include_str!("../../crates/local-aws/requirements.txt");

/// Why no python with moto is available.
#[derive(Debug, Error)]
pub enum VenvError {
    /// No python interpreter.
    #[error(
        "the local AWS needs python3 with the venv module, and {python} cannot be run; install it \
         (Debian: `apt-get install python3-venv`), or set CAPT_PYTHON"
    )]
    NoPython {
        /// The step or program that failed.
        python: String,
        /// The system error.
        #[source]
        source: std::io::Error,
    },
    /// A step of the installation failed.
    #[error("cannot {step} for the local AWS in {}; {remedy}:{said}", dir.display())]
    Step {
        /// The step or program that failed.
        step: &'static str,
        /// What the user can do.
        remedy: &'static str,
        /// The environment's directory.
        dir: PathBuf,
        /// The last lines of the tool's output.
        said: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The python to use: `CAPT_LOCAL_AWS_PYTHON`, or the cached environment, created if necessary. Reports slow steps through
/// `tell`.
pub async fn ensure_python(process_env: &ProcessEnv, tell: impl Fn(&str)) -> Result<PathBuf, VenvError> {
    if let Some(python) = process_env.var("CAPT_LOCAL_AWS_PYTHON") {
        return Ok(process_env.absolute_path(Path::new(python)));
    }
    let dir = process_env.cache_dir().join("moto-venv");
    let python = dir.join("bin/python");
    if is_complete(&dir)? {
        return Ok(python);
    }
    create_private_dir(&process_env.cache_dir())?;
    let _alone = lock_cache(&process_env.cache_dir(), &tell).await?;
    // The previous lock holder may have created it.
    if is_complete(&dir)? {
        return Ok(python);
    }
    tell("installing moto into the cache directory (once)");
    let base = process_env.var("CAPT_PYTHON").unwrap_or("python3");
    create_venv(&dir, base, &process_env.env).await?;
    let wanted = dir.join("requirements.txt");
    write_atomic(&wanted, REQUIREMENTS.as_bytes(), false)?;
    install_packages(&dir, &python, &wanted, &process_env.env).await?;
    write_atomic(&installed_marker(&dir), REQUIREMENTS.as_bytes(), false)?;
    Ok(python)
}

fn installed_marker(dir: &Path) -> PathBuf {
    dir.join("requirements.installed")
}

fn is_complete(dir: &Path) -> Result<bool, FileError> {
    Ok(read_optional(&installed_marker(dir))?.as_deref() == Some(REQUIREMENTS.as_bytes()))
}

/// Waits for the lock. The wait is bounded: every installation step has a deadline, and a dead owner releases the lock.
async fn lock_cache(cache: &Path, tell: impl Fn(&str)) -> Result<FileLock, FileError> {
    let us = format!("another capt (process {})", std::process::id());
    let mut told = false;
    loop {
        match FileLock::acquire(&cache.join("moto-venv.lock"), &us) {
            Ok(lock) => return Ok(lock),
            Err(LockError::File(error)) => return Err(error),
            Err(LockError::Held { holder, .. }) if !told => {
                tell(&format!("waiting for {holder}, which is installing moto into the cache directory"));
                told = true;
            }
            Err(LockError::Held { .. }) => tokio::time::sleep(LOCK_POLL_INTERVAL).await,
        }
    }
}

async fn create_venv(dir: &Path, base: &str, env: &BTreeMap<String, String>) -> Result<(), VenvError> {
    let target = dir.display().to_string();
    let said = capture_output(
        Path::new(base),
        &["-m", "venv", "--clear", &target],
        env,
        Path::new("/"),
        STEP_TIMEOUT,
    )
    .await
    .map_err(|source| VenvError::NoPython { python: base.to_owned(), source })?;
    check_output("create a python environment", VENV_REMEDY, dir, &said)
}

async fn install_packages(
    dir: &Path,
    python: &Path,
    wanted: &Path,
    env: &BTreeMap<String, String>,
) -> Result<(), VenvError> {
    let wanted = wanted.display().to_string();
    let args =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", &wanted];
    let said = capture_output(python, &args, env, dir, STEP_TIMEOUT)
        .await
        .map_err(|source| VenvError::NoPython { python: python.display().to_string(), source })?;
    check_output("install moto", PIP_REMEDY, dir, &said)
}

const STEP_TIMEOUT: Duration = Duration::from_mins(10);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(200);

const VENV_REMEDY: &str = "install the venv module (Debian: `apt-get install python3-venv`), name another python3 \
                       with CAPT_PYTHON, or set CAPT_LOCAL_AWS_PYTHON to a python that has moto";
const PIP_REMEDY: &str = "check that pip reaches its package index (network, proxy) and run the same command \
                           again, or set CAPT_LOCAL_AWS_PYTHON to a python that has moto";

fn check_output(
    step: &'static str,
    remedy: &'static str,
    dir: &Path,
    said: &CapturedOutput,
) -> Result<(), VenvError> {
    if said.success {
        return Ok(());
    }
    // Python's venv writes errors to standard output.
    let words = if said.stderr.is_empty() { &said.stdout } else { &said.stderr };
    let text = String::from_utf8_lossy(words);
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    let said = lines.into_iter().rev().fold(String::new(), |tail, line| tail + "\n  " + line);
    Err(VenvError::Step { step, remedy, dir: dir.to_owned(), said })
}

#[cfg(test)]
mod tests;
