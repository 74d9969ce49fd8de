//! The backup of a workspace: what a destroy needs if the directory is lost.

/// Copy of a workspace's state and destroy bundle outside its directory.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct WorkspaceBackup {
    /// The state file, byte for byte; `None` keeps the stored one.
    pub state: Option<Vec<u8>>,
    /// The sealed bundle that a destroy needs in addition to the state; `None` keeps the stored one.
    pub bundle: Option<Vec<u8>>,
    /// How often the stored state was replaced by hand, as far as the owner of this copy knows. A store that counts more refuses
    /// it: a person has decided for another state meanwhile.
    pub edits: u64,
}

/// Redacted: states contain secrets.
impl std::fmt::Debug for WorkspaceBackup {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("WorkspaceBackup")
            .field("state", &self.state.as_ref().map(Vec::len))
            .field("bundle", &self.bundle.as_ref().map(Vec::len))
            .field("edits", &self.edits)
            .finish()
    }
}
