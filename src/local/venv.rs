//! The python that runs moto: a virtual environment in the cache directory, made when it is first needed.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use terraform_driver::{
    exec::{Said, capture},
    workspace::files::{FileError, private_dir, read_optional, write_atomic},
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
    #[error("cannot {step} for the local AWS in {}: {said}", dir.display())]
    Step {
        /// What was tried.
        step: &'static str,
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
    let stamp = dir.join("requirements.installed");
    if read_optional(&stamp)?.as_deref() == Some(REQUIREMENTS.as_bytes()) {
        return Ok(python);
    }
    tell("installing moto into the cache directory; this happens once");
    private_dir(&outer.cache())?;
    let base = outer.var("CAPT_PYTHON").unwrap_or("python3");
    make(&dir, base, &outer.env).await?;
    let wanted = dir.join("requirements.txt");
    write_atomic(&wanted, REQUIREMENTS.as_bytes(), false)?;
    install(&dir, &python, &wanted, &outer.env).await?;
    write_atomic(&stamp, REQUIREMENTS.as_bytes(), false)?;
    Ok(python)
}

async fn make(dir: &Path, base: &str, env: &BTreeMap<String, String>) -> Result<(), VenvError> {
    let target = dir.display().to_string();
    let said = capture(Path::new(base), &["-m", "venv", "--clear", &target], env, Path::new("/"), MINUTES)
        .await
        .map_err(|source| VenvError::NoPython { python: base.to_owned(), source })?;
    check("make a python environment", dir, &said)
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
    check("install moto", dir, &said)
}

const MINUTES: Duration = Duration::from_mins(10);

fn check(step: &'static str, dir: &Path, said: &Said) -> Result<(), VenvError> {
    if said.success {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&said.stderr);
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    let said = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
    Err(VenvError::Step { step, dir: dir.to_owned(), said })
}
