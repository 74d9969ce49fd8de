//! Everything that a destroy needs beside the state, as one piece that can be kept elsewhere: the sealed configuration,
//! what the workspace says about itself, the provider lock file, the template's environment.

use std::{
    collections::BTreeMap,
    path::{Component, Path},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use terraform_driver::workspace::{
    Workspace,
    files::{FileError, private_dir, read_json, read_optional, write_atomic, write_json},
};

use super::error::WorkError;

/// Files by their path below the workspace.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Bundle {
    files: BTreeMap<String, String>,
}

const META: [&str; 4] =
    [".capt/sealed.json", ".capt/workspace.json", ".capt/env.json", ".capt/creating.json"];

/// Keeps the template's environment beside the sealed configuration; a destroy needs it when its Secret is gone.
pub fn seal_env(workspace: &Workspace, env: &[(String, String)]) -> Result<(), FileError> {
    write_json(&workspace.meta().join("env.json"), &env)
}

/// The environment that was sealed.
pub fn sealed_env(workspace: &Workspace) -> Result<Vec<(String, String)>, FileError> {
    Ok(read_json(&workspace.meta().join("env.json"))?.unwrap_or_default())
}

/// All of it as one piece.
pub fn pack(workspace: &Workspace) -> Result<Vec<u8>, WorkError> {
    let mut bundle = Bundle::default();
    let mut add = |path: String| -> Result<(), FileError> {
        if let Some(bytes) = read_optional(&workspace.dir().join(&path))? {
            bundle.files.insert(path, BASE64_STANDARD.encode(bytes));
        }
        Ok(())
    };
    let sealed: Vec<String> = read_json(&workspace.meta().join("sealed.json"))?.unwrap_or_default();
    for path in sealed {
        add(format!(".capt/sealed/{path}"))?;
    }
    for path in META {
        add(path.to_owned())?;
    }
    if let Ok(below) = workspace.root().strip_prefix(workspace.dir()) {
        add(below.join(".terraform.lock.hcl").display().to_string())?;
    }
    serde_json::to_vec(&bundle).map_err(|source| garbled(workspace, source))
}

/// Writes what is missing. What is there is at least as new.
pub fn unpack(workspace: &Workspace, bytes: &[u8]) -> Result<(), WorkError> {
    let bundle: Bundle = serde_json::from_slice(bytes).map_err(|source| garbled(workspace, source))?;
    if workspace.meta().join("workspace.json").exists() {
        return Ok(());
    }
    for (path, text) in &bundle.files {
        let relative = Path::new(path);
        if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            continue;
        }
        let target = workspace.dir().join(relative);
        if let (Some(parent), Ok(bytes)) = (target.parent(), BASE64_STANDARD.decode(text)) {
            private_dir(parent)?;
            write_atomic(&target, &bytes, true)?;
        }
    }
    // A destroy begins with what was sealed; a plan renders anew.
    Ok(workspace.unseal()?)
}

fn garbled(workspace: &Workspace, source: serde_json::Error) -> WorkError {
    FileError::Garbled { path: workspace.meta().join("bundle"), source }.into()
}

#[cfg(test)]
mod tests {
    use terraform_driver::workspace::FileToWrite;

    use super::*;

    fn applied(dir: &Path) -> Workspace {
        let workspace = Workspace::at(dir);
        let file = |path, bytes| FileToWrite { path, bytes, secret: false };
        workspace.write([file("main.tf", b"# one"), file("terraform.tfvars.json", b"{}")]).unwrap();
        workspace.seal().unwrap();
        seal_env(&workspace, &[("TOKEN".to_owned(), "hidden".to_owned())]).unwrap();
        write_json(&workspace.meta().join("workspace.json"), &serde_json::json!({"owner": "me"})).unwrap();
        workspace
    }

    #[test]
    fn an_empty_directory_gets_back_what_a_destroy_needs() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let packed = pack(&applied(here.path())).unwrap();
        let restored = Workspace::at(there.path());
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
        workspace.write([newer]).unwrap();
        unpack(&workspace, &packed).unwrap();
        assert_eq!(std::fs::read(dir.path().join("main.tf")).unwrap(), b"# two");
    }

    #[test]
    fn a_path_that_leads_out_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("inside");
        let bytes = serde_json::to_vec(&serde_json::json!({"files": {"../outside": "eA=="}})).unwrap();
        unpack(&Workspace::at(&inside), &bytes).unwrap();
        assert!(!dir.path().join("outside").exists());
    }
}
