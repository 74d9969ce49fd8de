//! Finds the terraform engine and caches its version.
//!
//! `terraform version` takes a quarter of the CPU time of a small plan, so its output is cached in the cache directory until
//! the binary changes.

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
    exec::capture_output,
    workspace::files::{create_private_dir, read_json, write_json},
};

use super::data_directory::DataDirectoryError;
use crate::process_env::ProcessEnv;

/// Identity of an engine binary.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct EngineBinary {
    path: PathBuf,
    /// Version managers select a version by the current directory.
    asked_in: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// Cached output of `version -json`.
#[derive(Debug, Serialize, Deserialize)]
struct CachedVersion {
    program: EngineBinary,
    answer: String,
}

/// Finds the engine and verifies its version.
pub async fn find_engine(
    process_env: &ProcessEnv,
    wanted: Option<&str>,
) -> Result<Engine, DataDirectoryError> {
    let path = process_env.var("PATH").unwrap_or_default();
    let candidate = engine::locate(wanted, OsStr::new(path), &process_env.cwd)?;
    let cache = process_env.cache_dir().join("engine.json");
    let program = EngineBinary::inspect(&candidate.path, &process_env.cwd);
    if let Some(answer) = read_cached_version(&cache, program.as_ref()) {
        return Ok(candidate.verify(answer.as_bytes())?);
    }
    let env = BTreeMap::from([
        ("PATH".to_owned(), path.to_owned()),
        ("CHECKPOINT_DISABLE".to_owned(), "1".to_owned()),
    ]);
    let said = capture_output(
        &candidate.path,
        &["version", "-json"],
        &env,
        &process_env.cwd,
        Duration::from_mins(1),
    )
    .await
    .map_err(|source| DataDirectoryError::Run { program: candidate.path.clone(), source })?;
    let engine = candidate.verify(&said.stdout)?;
    write_cached_version(&cache, program, said.stdout);
    Ok(engine)
}

impl EngineBinary {
    /// Identifies a binary; `None` for a script, whose output may differ on each call.
    fn inspect(path: &Path, cwd: &Path) -> Option<Self> {
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

/// Reads the cache; an unreadable cache counts as empty.
fn read_cached_version(cache: &Path, program: Option<&EngineBinary>) -> Option<String> {
    let kept: CachedVersion = read_json(cache).ok()??;
    (Some(&kept.program) == program).then_some(kept.answer)
}

/// Writes the cache; a failure only costs time.
fn write_cached_version(cache: &Path, program: Option<EngineBinary>, answer: Vec<u8>) {
    if let (Some(program), Ok(answer), Some(dir)) = (program, String::from_utf8(answer), cache.parent())
        && create_private_dir(dir).is_ok()
    {
        let _asked_again_next_time = write_json(cache, &CachedVersion { program, answer });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn binary(dir: &Path, rest: &str) -> EngineBinary {
        let path = dir.join("terraform");
        fs::write(&path, format!("\x7fELF{rest}")).unwrap();
        EngineBinary::inspect(&path, dir).unwrap()
    }

    #[test]
    fn an_answer_is_kept_for_the_same_program_only() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache/engine.json");
        write_cached_version(&cache, Some(binary(dir.path(), "one")), b"first".to_vec());
        let path = dir.path().join("terraform");
        let again = EngineBinary::inspect(&path, dir.path()).unwrap();
        assert_eq!(read_cached_version(&cache, Some(&again)).as_deref(), Some("first"));
        let elsewhere = EngineBinary::inspect(&path, Path::new("/")).unwrap();
        assert_eq!(read_cached_version(&cache, Some(&elsewhere)), None);
        let newer = binary(dir.path(), "another");
        assert_eq!(read_cached_version(&cache, Some(&newer)), None);
    }

    #[test]
    fn a_script_is_asked_every_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("terraform");
        fs::write(&path, "#!/bin/sh\n").unwrap();
        assert_eq!(EngineBinary::inspect(&path, dir.path()), None);
        let cache = dir.path().join("engine.json");
        write_cached_version(&cache, None, b"first".to_vec());
        assert_eq!(read_cached_version(&cache, None), None);
    }

    #[test]
    fn a_cache_that_makes_no_sense_is_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("engine.json");
        fs::write(&cache, "not json").unwrap();
        assert_eq!(read_cached_version(&cache, Some(&binary(dir.path(), ""))), None);
    }
}
