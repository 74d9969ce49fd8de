//! File names that a module must not bring: Terraform and capt would take its files for their own.

/// What a file with a reserved name would replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReservedFile {
    /// A state, or a copy of one.
    State,
    /// A saved plan.
    Plan,
    /// Values of variables that Terraform reads by itself.
    Variables,
    /// A file that capt writes.
    Generated,
}

impl ReservedFile {
    /// What the name is reserved for, and what to do instead.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::State => {
                "the name is reserved for the state of the workspace; remove the file from the module"
            }
            Self::Plan => "the name is reserved for saved plans; remove the file from the module",
            Self::Variables => {
                "values of variables come from the template; move them to defaults of the variables, or to vars, varFiles or \
                 varmap, and remove the file from the module"
            }
            Self::Generated => "the name is reserved for files that capt writes; rename the file",
        }
    }

    /// What a path inside a module is reserved for. `is_in_root` says whether Terraform runs in its directory.
    pub(super) fn of(path: &str, is_in_root: bool) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        if path.split('/').any(|part| part.contains(".tfstate")) {
            Some(Self::State)
        } else if name.contains(".tfplan") {
            Some(Self::Plan)
        } else if is_in_root && (name.starts_with("terraform.tfvars") || name.contains(".auto.tfvars")) {
            Some(Self::Variables)
        } else if is_in_root && ["capt_", "capt-", "capt."].iter().any(|start| name.starts_with(start)) {
            Some(Self::Generated)
        } else {
            None
        }
    }
}

/// Whether a path is the one of a state or a plan, which only Terraform and the recovery of states write.
pub(crate) fn is_state_or_plan(path: &str) -> bool {
    matches!(ReservedFile::of(path, false), Some(ReservedFile::State | ReservedFile::Plan))
}
