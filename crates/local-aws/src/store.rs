//! Persistence of the EKS model: one JSON file, replaced atomically.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{Error, eks::state::EksState};

/// Content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct PersistedModel {
    /// The instance that wrote it. Another instance does not have its moto state.
    pub(crate) instance: String,
    pub(crate) state: EksState,
}

#[derive(Serialize)]
struct PersistedModelRef<'a> {
    instance: &'a str,
    state: &'a EksState,
}

/// Loads the model; none if the file does not exist.
pub(crate) fn load(path: &Path) -> Result<Option<PersistedModel>, Error> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Load { path: path.to_owned(), source }),
    };
    let saved =
        serde_json::from_slice(&bytes).map_err(|source| Error::Parse { path: path.to_owned(), source })?;
    Ok(Some(saved))
}

/// Writes a temporary file and renames it, so that readers never see a partial model.
pub(crate) fn save(path: &Path, instance: &str, state: &EksState) -> io::Result<()> {
    let bytes = serde_json::to_vec(&PersistedModelRef { instance, state })?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    let mut file =
        fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_loaded_and_a_missing_file_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("eks.json");
        assert!(load(&path).unwrap().is_none());
        let mut state = EksState::default();
        state.regions.entry("eu-west-1".to_owned()).or_default();
        save(&path, "one", &state).unwrap();
        let saved = load(&path).unwrap().unwrap();
        assert_eq!(saved.instance, "one");
        assert!(saved.state.regions.contains_key("eu-west-1"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the temporary file is gone");
    }

    #[test]
    fn a_torn_file_is_named_not_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("eks.json");
        fs::write(&path, b"{\"instance\":\"one\",\"sta").unwrap();
        let error = load(&path).unwrap_err();
        assert!(error.to_string().contains("eks.json"), "{error}");
    }
}
