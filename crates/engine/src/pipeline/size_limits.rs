//! Limits on what a workspace brings into memory, onto the disk and into the state store.

use capt_util::byte_size::ByteSize;
use terraform_driver::{source::SourceLimits, workspace::WorkspaceDir};

use super::error::PipelineError;

/// Limits of every workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeLimits {
    /// Of a module source.
    pub source: SourceLimits,
    /// Of a destroy bundle.
    pub bundle: ByteSize,
    /// Of a state.
    pub state: ByteSize,
    /// Of the log of one terraform command.
    pub log: ByteSize,
}

impl Default for SizeLimits {
    fn default() -> Self {
        Self {
            source: SourceLimits::default(),
            bundle: ByteSize::mebibytes(24),
            state: ByteSize::mebibytes(32),
            log: ByteSize::mebibytes(64),
        }
    }
}

impl SizeLimits {
    /// Fails if a state file of the workspace is too large to be read.
    pub fn check_state(&self, workspace: &WorkspaceDir) -> Result<(), PipelineError> {
        let errored = workspace.root().join("errored.tfstate");
        let sizes =
            [workspace.state_path(), errored].map(|path| path.metadata().map_or(0, |file| file.len()));
        let remedy = "it stays in the workspace directory, and is neither backed up nor planned on; \
                      have the limit raised (--max-state-size), then split the workspace";
        check("the state", sizes.into_iter().max().unwrap_or_default(), self.state, remedy)
    }

    /// Fails if a packed destroy bundle is too large for the state store.
    pub fn check_bundle(&self, bundle: &[u8]) -> Result<(), PipelineError> {
        let remedy =
            "nothing was applied; use a smaller module, or have the limit raised (--max-bundle-size)";
        check("the configuration for a later destroy", bundle.len() as u64, self.bundle, remedy)
    }
}

fn check(what: &'static str, size: u64, limit: ByteSize, remedy: &'static str) -> Result<(), PipelineError> {
    if size > limit.0 {
        return Err(PipelineError::TooLarge { what, size: ByteSize(size), limit, remedy });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn h6_a_state_of_a_hundred_megabytes_is_refused_before_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = WorkspaceDir::at(dir.path());
        let limits = SizeLimits::default();
        assert!(limits.check_state(&workspace).is_ok(), "there is none");
        // Sparse, and no JSON: an attempt to read it would fail in another way.
        File::create(workspace.state_path()).unwrap().set_len(100 << 20).unwrap();
        let refused = limits.check_state(&workspace).unwrap_err().to_string();
        assert!(refused.starts_with("the state has 100Mi, more than 32Mi"), "{refused}");
        assert!(refused.contains("--max-state-size"), "{refused}");
    }

    #[test]
    fn h6_a_large_bundle_is_refused_with_a_remedy() {
        let limits = SizeLimits { bundle: ByteSize(10), ..SizeLimits::default() };
        assert!(limits.check_bundle(&[0; 10]).is_ok());
        let refused = limits.check_bundle(&[0; 11]).unwrap_err().to_string();
        assert!(refused.contains("--max-bundle-size"), "{refused}");
    }
}
