//! The python that runs moto: a virtual environment in the cache directory, made when it is first needed, by
//! one capt at a time.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use terraform_driver::{
    exec::{Said, capture},
    workspace::{
        FileLock, LockError,
        files::{FileError, private_dir, read_optional, write_atomic},
    },
};
use thiserror::Error;

use crate::config::Outer;

/// The pinned packages; also what decides whether an environment is the right one.
pub const REQUIREMENTS: &str = include_str!("../../crates/local-aws/requirements.txt");

/// Why there is no python for moto.
#[derive(Debug, Error)]
pub enum VenvError {
    /// No python at all.
    #[error(
        "the local AWS needs python3 with its venv module, and {python} cannot be run; install it \
         (Debian: `apt-get install python3-venv`) or set CAPT_PYTHON to one"
    )]
    NoPython {
        /// What was tried.
        python: String,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A step of the installation failed.
    #[error("cannot {step} for the local AWS in {}; {remedy}:{said}", dir.display())]
    Step {
        /// What was tried.
        step: &'static str,
        /// What the user can do.
        remedy: &'static str,
        /// The environment's directory.
        dir: PathBuf,
        /// The last lines that the tool printed.
        said: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The python to use: `CAPT_LOCAL_AWS_PYTHON`, or the one of the environment in the cache, which is made if
/// it is not there. `tell` hears about the slow part.
pub async fn python(outer: &Outer, tell: impl Fn(&str)) -> Result<PathBuf, VenvError> {
    if let Some(python) = outer.var("CAPT_LOCAL_AWS_PYTHON") {
        return Ok(outer.absolute(Path::new(python)));
    }
    let dir = outer.cache().join("moto-venv");
    let python = dir.join("bin/python");
    if is_complete(&dir)? {
        return Ok(python);
    }
    private_dir(&outer.cache())?;
    let _alone = alone(&outer.cache(), &tell).await?;
    // Whoever we waited for may have made it.
    if is_complete(&dir)? {
        return Ok(python);
    }
    tell("installing moto into the cache directory; this happens once");
    let base = outer.var("CAPT_PYTHON").unwrap_or("python3");
    make(&dir, base, &outer.env).await?;
    let wanted = dir.join("requirements.txt");
    write_atomic(&wanted, REQUIREMENTS.as_bytes(), false)?;
    install(&dir, &python, &wanted, &outer.env).await?;
    write_atomic(&stamp(&dir), REQUIREMENTS.as_bytes(), false)?;
    Ok(python)
}

fn stamp(dir: &Path) -> PathBuf {
    dir.join("requirements.installed")
}

fn is_complete(dir: &Path) -> Result<bool, FileError> {
    Ok(read_optional(&stamp(dir))?.as_deref() == Some(REQUIREMENTS.as_bytes()))
}

/// Waits for whoever else installs. There is an end to it: each step of an installation has a deadline, and
/// the lock of a dead owner is free.
async fn alone(cache: &Path, tell: impl Fn(&str)) -> Result<FileLock, FileError> {
    let us = format!("another capt (process {})", std::process::id());
    let mut told = false;
    loop {
        match FileLock::take(&cache.join("moto-venv.lock"), &us) {
            Ok(lock) => return Ok(lock),
            Err(LockError::File(error)) => return Err(error),
            Err(LockError::Held { holder, .. }) if !told => {
                tell(&format!("waiting for {holder}, which installs moto into the cache directory"));
                told = true;
            }
            Err(LockError::Held { .. }) => tokio::time::sleep(LOOK).await,
        }
    }
}

async fn make(dir: &Path, base: &str, env: &BTreeMap<String, String>) -> Result<(), VenvError> {
    let target = dir.display().to_string();
    let said = capture(Path::new(base), &["-m", "venv", "--clear", &target], env, Path::new("/"), MINUTES)
        .await
        .map_err(|source| VenvError::NoPython { python: base.to_owned(), source })?;
    check("make a python environment", NO_VENV, dir, &said)
}

async fn install(
    dir: &Path,
    python: &Path,
    wanted: &Path,
    env: &BTreeMap<String, String>,
) -> Result<(), VenvError> {
    let wanted = wanted.display().to_string();
    let args = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", &wanted];
    let said = capture(python, &args, env, dir, MINUTES)
        .await
        .map_err(|source| VenvError::NoPython { python: python.display().to_string(), source })?;
    check("install moto", NO_PACKAGES, dir, &said)
}

const MINUTES: Duration = Duration::from_mins(10);
const LOOK: Duration = Duration::from_millis(200);

const NO_VENV: &str = "install the venv module (Debian: `apt-get install python3-venv`), name another python3 \
                       with CAPT_PYTHON, or set CAPT_LOCAL_AWS_PYTHON to a python that has moto";
const NO_PACKAGES: &str = "see that pip reaches its package index (network, proxy) and run the same command \
                           again, or set CAPT_LOCAL_AWS_PYTHON to a python that has moto";

fn check(step: &'static str, remedy: &'static str, dir: &Path, said: &Said) -> Result<(), VenvError> {
    if said.success {
        return Ok(());
    }
    // Python's venv complains on its standard output.
    let words = if said.stderr.is_empty() { &said.stdout } else { &said.stderr };
    let text = String::from_utf8_lossy(words);
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    let said = lines.into_iter().rev().fold(String::new(), |tail, line| tail + "\n  " + line);
    Err(VenvError::Step { step, remedy, dir: dir.to_owned(), said })
}

#[cfg(test)]
mod tests;
