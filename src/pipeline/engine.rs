//! Which terraform there is.
//!
//! Asking a terraform for its version takes as much CPU as a quarter of a small plan, so the answer of a program that
//! has not changed is kept in the cache directory.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::File,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use terraform_driver::{
    engine::{self, Engine},
    exec::capture,
    workspace::files::{private_dir, read_json, write_json},
};

use super::site::SiteError;
use crate::config::Outer;

/// A program as it was when it was asked.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Program {
    path: PathBuf,
    /// Managers of versions choose one by the directory that they are called in.
    asked_in: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// What it said.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    program: Program,
    answer: String,
}

/// Finds the engine, and learns its version.
pub async fn find_engine(outer: &Outer, wanted: Option<&str>) -> Result<Engine, SiteError> {
    let path = outer.var("PATH").unwrap_or_default();
    let candidate = engine::find(wanted, OsStr::new(path), &outer.cwd)?;
    let cache = outer.cache().join("engine.json");
    let program = Program::of(&candidate.path, &outer.cwd);
    if let Some(answer) = recall(&cache, program.as_ref()) {
        return Ok(candidate.verify(answer.as_bytes())?);
    }
    let env = BTreeMap::from([
        ("PATH".to_owned(), path.to_owned()),
        ("CHECKPOINT_DISABLE".to_owned(), "1".to_owned()),
    ]);
    let said = capture(&candidate.path, &["version", "-json"], &env, &outer.cwd, Duration::from_mins(1))
        .await
        .map_err(|source| SiteError::Run { program: candidate.path.clone(), source })?;
    let engine = candidate.verify(&said.stdout)?;
    keep(&cache, program, said.stdout);
    Ok(engine)
}

impl Program {
    /// `None` for a script, which may answer differently each time.
    fn of(path: &Path, cwd: &Path) -> Option<Self> {
        let mut file = File::open(path).ok()?;
        let mut magic = [0; 4];
        file.read_exact(&mut magic).ok()?;
        let data = file.metadata().ok()?;
        (magic == *b"\x7fELF").then(|| Self {
            path: path.to_owned(),
            asked_in: cwd.to_owned(),
            device: data.dev(),
            inode: data.ino(),
            size: data.size(),
            changed: (data.ctime(), data.ctime_nsec()),
        })
    }
}

/// A cache that cannot be read is as good as an empty one.
fn recall(cache: &Path, program: Option<&Program>) -> Option<String> {
    let kept: Kept = read_json(cache).ok()??;
    (Some(&kept.program) == program).then_some(kept.answer)
}

/// One that cannot be written costs time and nothing else.
fn keep(cache: &Path, program: Option<Program>, answer: Vec<u8>) {
    if let (Some(program), Ok(answer), Some(dir)) = (program, String::from_utf8(answer), cache.parent())
        && private_dir(dir).is_ok()
    {
        let _asked_again_next_time = write_json(cache, &Kept { program, answer });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn binary(dir: &Path, rest: &str) -> Program {
        let path = dir.join("terraform");
        fs::write(&path, format!("\x7fELF{rest}")).unwrap();
        Program::of(&path, dir).unwrap()
    }

    #[test]
    fn an_answer_is_kept_for_the_same_program_only() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache/engine.json");
        keep(&cache, Some(binary(dir.path(), "one")), b"first".to_vec());
        let path = dir.path().join("terraform");
        let again = Program::of(&path, dir.path()).unwrap();
        assert_eq!(recall(&cache, Some(&again)).as_deref(), Some("first"));
        let elsewhere = Program::of(&path, Path::new("/")).unwrap();
        assert_eq!(recall(&cache, Some(&elsewhere)), None);
        let newer = binary(dir.path(), "another");
        assert_eq!(recall(&cache, Some(&newer)), None);
    }

    #[test]
    fn a_script_is_asked_every_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("terraform");
        fs::write(&path, "#!/bin/sh\n").unwrap();
        assert_eq!(Program::of(&path, dir.path()), None);
        let cache = dir.path().join("engine.json");
        keep(&cache, None, b"first".to_vec());
        assert_eq!(recall(&cache, None), None);
    }

    #[test]
    fn a_cache_that_makes_no_sense_is_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("engine.json");
        fs::write(&cache, "not json").unwrap();
        assert_eq!(recall(&cache, Some(&binary(dir.path(), ""))), None);
    }
}
