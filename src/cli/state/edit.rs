//! Whether a state may be put in the place of the current one, and with which serial. Pure.

use anyhow::bail;
use serde::Deserialize;
use terraform_driver::state::{State, with_serial};

use super::version::OpenWorkspace;

/// Version of the format that the supported engines write.
const STATE_FORMAT: u64 = 4;

/// How a state is replaced.
#[derive(Debug, Clone, Copy)]
pub(super) struct EditOptions {
    /// What is done, in the past tense.
    pub(super) verb: &'static str,
    /// Accept another lineage, and the loss of all resources.
    pub(super) force: bool,
}

/// A replacement that passed all checks.
#[derive(Debug)]
pub(super) struct StateEdit {
    /// The new state file.
    pub(super) bytes: Vec<u8>,
    /// What is done, in the past tense.
    pub(super) verb: &'static str,
    /// Where the state comes from.
    pub(super) source: String,
    /// Serial of the replaced state.
    pub(super) before: Option<u64>,
    /// Serial of the new state.
    pub(super) after: u64,
    resources: usize,
}

/// Refuses what is not a complete state.
pub(super) fn check_file(bytes: &[u8], what: &str) -> anyhow::Result<State> {
    #[derive(Deserialize)]
    struct Format {
        version: u64,
    }
    let state = State::parse(bytes);
    let format = serde_json::from_slice::<Format>(bytes).map(|it| it.version);
    match (state, format) {
        (Ok(state), Ok(STATE_FORMAT)) if !state.version.lineage.is_empty() => Ok(state),
        (Ok(_), Ok(format)) if format != STATE_FORMAT => {
            bail!("{what} has the state format {format}, not {STATE_FORMAT}; nothing was changed")
        }
        _ => bail!(
            "{what} is not a complete Terraform state; nothing was changed. `capt state pull` prints one"
        ),
    }
}

impl StateEdit {
    /// Checks a state for a workspace, and raises its serial above everything that is known of the workspace: no run, no snapshot
    /// and no other directory has a newer one then.
    pub(super) fn new(
        workspace: &OpenWorkspace,
        (bytes, what): (&[u8], &str),
        options: EditOptions,
    ) -> anyhow::Result<Self> {
        let state = check_file(bytes, what)?;
        let (key, current) = (&workspace.key, workspace.current());
        let resources = state.managed_objects().count();
        if let (Some(current), false) = (current, options.force) {
            if current.lineage != state.version.lineage {
                bail!(
                    "{what} has lineage {}, but the state of {key} has lineage {}: it belongs to another workspace, or to an earlier \
                     life of this one. Resources that only the current state has would be forgotten, and created a second time. \
                     Nothing was changed; pass --force if you want that",
                    state.version.lineage,
                    current.lineage
                );
            }
            if resources == 0 && current.resources != Some(0) {
                let count = current.resources.map_or_else(|| "some".to_owned(), |count| count.to_string());
                bail!(
                    "{what} has no resources, but the state of {key} has {count}: these would be forgotten, and created a second \
                     time. Nothing was changed; pass --force if you want that"
                );
            }
        }
        let known = workspace.versions.iter().map(|it| it.serial);
        let after = known.chain([state.version.serial]).max().unwrap_or_default() + 1;
        Ok(Self {
            bytes: with_serial(bytes, after)?,
            verb: options.verb,
            source: what.to_owned(),
            before: current.map(|it| it.serial),
            after,
            resources,
        })
    }

    /// `pushed fixed.tfstate, serial 5 → 6, 19 resources`
    pub(super) fn summary(&self) -> String {
        let before = self.before.map_or_else(|| "none".to_owned(), |serial| serial.to_string());
        let Self { verb, source, after, resources, .. } = self;
        let noun = if *resources == 1 { "resource" } else { "resources" };
        format!("{verb} {source}, serial {before} → {after}, {resources} {noun}")
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use capt_model::workspaces::WorkspaceKey;
    use terraform_driver::state::StateVersion;

    use super::{
        super::version::{StateVersionRow, VersionContents},
        *,
    };

    fn state(lineage: &str, serial: u64, resources: usize) -> String {
        let one = r#"{"mode":"managed","type":"t","name":"n","instances":[{"attributes":{}}]}"#;
        let all = vec![one; resources].join(",");
        format!(r#"{{"version":4,"serial":{serial},"lineage":"{lineage}","resources":[{all}]}}"#)
    }

    fn row(serial: u64, lineage: &str, kept: &'static str) -> StateVersionRow {
        StateVersionRow {
            id: format!("{serial}-{kept}"),
            serial,
            lineage: lineage.to_owned(),
            resources: Some(2),
            stored_at: None,
            kept,
            contents: VersionContents::File(PathBuf::new()),
        }
    }

    fn workspace() -> OpenWorkspace {
        let versions = vec![row(5, "a", "current"), row(9, "a", "set aside"), row(9, "b", "snapshot")];
        OpenWorkspace { key: WorkspaceKey::new("default", "net"), versions, stored: None }
    }

    fn edit(text: &str, force: bool) -> anyhow::Result<StateEdit> {
        StateEdit::new(&workspace(), (text.as_bytes(), "x.tfstate"), EditOptions { verb: "pushed", force })
    }

    #[test]
    fn the_serial_rises_above_all_that_is_known() {
        for (serial, after) in [(1, 10), (5, 10), (12, 13)] {
            let edit = edit(&state("a", serial, 2), false).unwrap();
            assert_eq!((edit.before, edit.after), (Some(5), after));
            assert_eq!(StateVersion::parse(&edit.bytes).unwrap().serial, after);
        }
        let said = edit(&state("a", 1, 1), false).unwrap().summary();
        assert_eq!(said, "pushed x.tfstate, serial 5 → 10, 1 resource");
    }

    #[test]
    fn what_would_forget_resources_needs_force_and_says_why() {
        for (text, why) in [(state("other", 9, 2), "lineage other"), (state("a", 9, 0), "has no resources")] {
            let said = edit(&text, false).unwrap_err().to_string();
            assert!(said.contains(why) && said.contains("--force") && said.contains("default/net"), "{said}");
            edit(&text, true).unwrap();
        }
    }

    #[test]
    fn what_is_not_a_state_is_refused_with_force_too() {
        let torn = &state("a", 6, 2)[..60];
        let old = state("a", 6, 2).replace(r#""version":4"#, r#""version":3"#);
        for text in ["", "{}", "null", torn, old.as_str(), state("", 6, 2).as_str()] {
            let said = edit(text, true).unwrap_err().to_string();
            assert!(said.contains("x.tfstate") && said.contains("nothing was changed"), "{said}");
        }
    }

    #[test]
    fn a_version_is_found_by_its_serial_unless_two_have_it() {
        let workspace = workspace();
        assert_eq!(workspace.find("5").unwrap().kept, "current");
        assert_eq!(workspace.find("9-snapshot").unwrap().lineage, "b");
        let said = workspace.find("9").unwrap_err().to_string();
        assert!(said.contains("9-set aside, 9-snapshot"), "{said}");
        let said = workspace.find("7").err().unwrap().to_string();
        assert!(said.contains("capt state versions default/net"), "{said}");
    }
}
