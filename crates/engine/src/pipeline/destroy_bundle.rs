//! Destroy bundle: everything beside the state that a destroy needs, packed for a backup: the sealed configuration, the
//! workspace record, the provider lock file and the template's environment.

use std::{
    collections::BTreeMap,
    path::{Component, Path},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use terraform_driver::workspace::{
    WorkspaceDir,
    files::{FileError, create_private_dir, read_json, read_optional, write_atomic, write_json},
};

use super::error::PipelineError;

/// Base64 file contents by path below the workspace directory.
#[derive(Debug, Default, Serialize, Deserialize)]
struct DestroyBundle {
    files: BTreeMap<String, String>,
}

const META_FILES: [&str; 4] =
    [".capt/sealed.json", ".capt/workspace.json", ".capt/env.json", ".capt/creating.json"];

/// Stores the template's environment with the sealed configuration; a destroy needs it when its Secret is deleted.
pub fn seal_env(workspace: &WorkspaceDir, env: &[(String, String)]) -> Result<(), FileError> {
    write_json(&workspace.meta_dir().join("env.json"), &env)
}

/// Reads the sealed environment.
pub fn sealed_env(workspace: &WorkspaceDir) -> Result<Vec<(String, String)>, FileError> {
    Ok(read_json(&workspace.meta_dir().join("env.json"))?.unwrap_or_default())
}

/// Packs the bundle of a workspace.
pub fn pack(workspace: &WorkspaceDir) -> Result<Vec<u8>, PipelineError> {
    let mut bundle = DestroyBundle::default();
    let mut add = |path: String| -> Result<(), FileError> {
        if let Some(bytes) = read_optional(&workspace.dir().join(&path))? {
            bundle.files.insert(path, BASE64_STANDARD.encode(bytes));
        }
        Ok(())
    };
    let sealed: Vec<String> = read_json(&workspace.meta_dir().join("sealed.json"))?.unwrap_or_default();
    for path in sealed {
        add(format!(".capt/sealed/{path}"))?;
    }
    for path in META_FILES {
        add(path.to_owned())?;
    }
    if let Ok(below) = workspace.root().strip_prefix(workspace.dir()) {
        add(below.join(".terraform.lock.hcl").display().to_string())?;
    }
    serde_json::to_vec(&bundle).map_err(|source| invalid_bundle(workspace, source))
}

/// Unpacks a bundle into an empty directory. A directory that has a record is at least as new and is left alone.
pub fn unpack(workspace: &WorkspaceDir, bytes: &[u8]) -> Result<(), PipelineError> {
    if workspace.meta_dir().join("workspace.json").exists() { Ok(()) } else { replace(workspace, bytes) }
}

/// Replaces configuration and record of a directory by those of a bundle.
pub fn replace(workspace: &WorkspaceDir, bytes: &[u8]) -> Result<(), PipelineError> {
    let bundle: DestroyBundle =
        serde_json::from_slice(bytes).map_err(|source| invalid_bundle(workspace, source))?;
    for (path, text) in &bundle.files {
        let relative = Path::new(path);
        if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            continue;
        }
        let target = workspace.dir().join(relative);
        if let (Some(parent), Ok(bytes)) = (target.parent(), BASE64_STANDARD.decode(text)) {
            create_private_dir(parent)?;
            write_atomic(&target, &bytes, true)?;
        }
    }
    // A destroy uses the sealed configuration; a plan renders again.
    Ok(workspace.unseal()?)
}

fn invalid_bundle(workspace: &WorkspaceDir, source: serde_json::Error) -> PipelineError {
    FileError::InvalidJson { path: workspace.meta_dir().join("bundle"), source }.into()
}

#[cfg(test)]
mod tests {
    use terraform_driver::workspace::FileToWrite;

    use super::*;

    fn applied(dir: &Path) -> WorkspaceDir {
        let workspace = WorkspaceDir::at(dir);
        let file = |path, bytes| FileToWrite { path, bytes, secret: false };
        workspace.sync_files([file("main.tf", b"# one"), file("terraform.tfvars.json", b"{}")]).unwrap();
        workspace.seal().unwrap();
        seal_env(&workspace, &[("TOKEN".to_owned(), "hidden".to_owned())]).unwrap();
        write_json(&workspace.meta_dir().join("workspace.json"), &serde_json::json!({"owner": "me"}))
            .unwrap();
        workspace
    }

    #[test]
    fn an_empty_directory_gets_back_what_a_destroy_needs() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let packed = pack(&applied(here.path())).unwrap();
        let restored = WorkspaceDir::at(there.path());
        unpack(&restored, &packed).unwrap();
        assert_eq!(std::fs::read(there.path().join("main.tf")).unwrap(), b"# one");
        assert_eq!(sealed_env(&restored).unwrap(), [("TOKEN".to_owned(), "hidden".to_owned())]);
        assert!(there.path().join(".capt/workspace.json").exists());
    }

    #[test]
    fn what_is_there_stays() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = applied(dir.path());
        let packed = pack(&workspace).unwrap();
        let newer = FileToWrite { path: "main.tf", bytes: b"# two", secret: false };
        workspace.sync_files([newer]).unwrap();
        unpack(&workspace, &packed).unwrap();
        assert_eq!(std::fs::read(dir.path().join("main.tf")).unwrap(), b"# two");
    }

    #[test]
    fn a_path_that_leads_out_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("inside");
        let bytes = serde_json::to_vec(&serde_json::json!({"files": {"../outside": "eA=="}})).unwrap();
        unpack(&WorkspaceDir::at(&inside), &bytes).unwrap();
        assert!(!dir.path().join("outside").exists());
    }
}
