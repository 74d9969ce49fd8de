//! `HOME` and `TMPDIR` of a workspace's commands: `DATA/scratch/<digest>/{home,tmp}`.
//!
//! Each workspace has its own, because a file in the home directory decides what a later command executes (`~/.gitconfig`). They
//! are not below the workspace directory: its path contains two names of the user's choice, and providers create unix sockets in
//! `TMPDIR`, whose paths are limited.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};
use terraform_driver::{
    hex::hex,
    workspace::{
        WorkspaceDir,
        files::{FileError, create_private_dir, remove_optional},
    },
};

/// Permissions of everybody but the owner.
const OTHERS: u32 = 0o077;

/// Longest `TMPDIR`: a unix socket path has at most 107 bytes, of which go-plugin's name takes about 20.
const MAX_TMP_LEN: usize = 80;

/// `HOME` and `TMPDIR` of one workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScratchDirs {
    base: PathBuf,
    /// `HOME`.
    pub(crate) home: PathBuf,
    /// `TMPDIR`.
    pub(crate) tmp: PathBuf,
}

impl ScratchDirs {
    /// The directories of a workspace; creates nothing. `system_tmp` is used if the path of `data` is too long for sockets.
    pub(crate) fn of(data: &Path, system_tmp: &Path, workspace: &WorkspaceDir) -> Self {
        let digest: String = hex(Sha256::digest(workspace.dir().as_os_str().as_encoded_bytes()));
        let name = &digest[..16];
        let base = scratch_root(data).join(name);
        let near = base.join("tmp");
        let is_short = near.as_os_str().len() <= MAX_TMP_LEN;
        let tmp = if is_short { near } else { system_tmp.join(format!("capt-{name}")) };
        Self { home: base.join("home"), base, tmp }
    }

    /// Creates both, readable by this user only.
    pub(crate) fn create(&self) -> Result<(), FileError> {
        create_private_dir(&self.home)?;
        create_private_dir(&self.tmp)?;
        // In a directory that others can write to, somebody may have created it first.
        let found =
            fs::symlink_metadata(&self.tmp).map_err(|source| FileError::new("read", &self.tmp, source))?;
        let ours = found.is_dir()
            && found.uid() == rustix::process::geteuid().as_raw()
            && found.mode() & OTHERS == 0;
        if ours {
            return Ok(());
        }
        let foreign =
            io::Error::new(io::ErrorKind::PermissionDenied, "it is not a private directory of this user");
        Err(FileError::new("use", &self.tmp, foreign))
    }

    /// Makes the AWS files of the operator's user visible in `HOME`, or hides them.
    pub(crate) fn link_aws_files(&self, of: Option<&Path>) -> Result<(), FileError> {
        let link = self.home.join(".aws");
        let wanted = of.map(|home| home.join(".aws")).filter(|it| it.is_dir());
        let found = fs::read_link(&link).ok();
        if found == wanted {
            return Ok(());
        }
        if found.is_some() {
            remove_optional(&link)?;
        }
        match wanted {
            Some(target) => match symlink(target, &link) {
                // A directory that a run created.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                linked => linked.map_err(|source| FileError::new("create", &link, source)),
            },
            None => Ok(()),
        }
    }

    /// Removes both.
    pub(crate) fn remove(&self) -> Result<(), FileError> {
        remove_tree(&self.tmp)?;
        remove_tree(&self.base)
    }
}

/// Removes the directories of all workspaces of a data directory.
pub(crate) fn remove_all(data: &Path) -> Result<(), FileError> {
    remove_tree(&scratch_root(data))
}

fn scratch_root(data: &Path) -> PathBuf {
    data.join("scratch")
}

fn remove_tree(dir: &Path) -> Result<(), FileError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FileError::new("remove", dir, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(name: &str) -> WorkspaceDir {
        WorkspaceDir::at(Path::new("/data/workspaces/team").join(name))
    }

    #[test]
    fn m4_two_workspaces_share_neither_home_nor_tmpdir() {
        let data = Path::new("/data");
        let [one, two] =
            ["one", "two"].map(|name| ScratchDirs::of(data, Path::new("/tmp"), &workspace(name)));
        assert_ne!(one.home, two.home);
        assert_ne!(one.tmp, two.tmp);
        assert!(one.home.starts_with("/data/scratch") && one.tmp.starts_with("/data/scratch"), "{one:?}");
    }

    #[test]
    fn a_socket_path_in_tmpdir_is_never_too_long() {
        let data = Path::new("/").join("d".repeat(200));
        let dirs = ScratchDirs::of(&data, Path::new("/tmp"), &workspace("one"));
        assert!(dirs.tmp.starts_with("/tmp") && dirs.tmp.as_os_str().len() <= MAX_TMP_LEN, "{dirs:?}");
    }

    #[test]
    fn a_directory_that_others_can_read_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let (data, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let long = data.path().join("d".repeat(100));
        let dirs = ScratchDirs::of(&long, shared.path(), &workspace("one"));
        fs::create_dir(&dirs.tmp).unwrap();
        fs::set_permissions(&dirs.tmp, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(dirs.create().is_err());
        fs::set_permissions(&dirs.tmp, fs::Permissions::from_mode(0o700)).unwrap();
        dirs.create().unwrap();
        dirs.remove().unwrap();
        assert!(!dirs.tmp.exists() && !dirs.home.exists());
    }

    #[test]
    fn the_operators_aws_files_are_visible_to_its_own_identity_only() {
        let (data, user) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(user.path().join(".aws")).unwrap();
        fs::write(user.path().join(".aws/config"), "[default]").unwrap();
        let dirs = ScratchDirs::of(data.path(), Path::new("/tmp"), &workspace("one"));
        dirs.create().unwrap();
        dirs.link_aws_files(Some(user.path())).unwrap();
        assert!(dirs.home.join(".aws/config").exists());
        dirs.link_aws_files(None).unwrap();
        assert!(!dirs.home.join(".aws").exists());
        assert!(user.path().join(".aws/config").exists());
    }
}
