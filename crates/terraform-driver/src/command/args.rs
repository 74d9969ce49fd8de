//! Extra arguments of a template for terraform's commands.
//!
//! An argument that would break the driver (its event stream, its saved plan, its state file) or expose the value of a variable
//! in the process list is rejected by name, with the remedy. All others are passed on.
//!
//! Upstream applies without a saved plan, so its `applyArgs` and `destroyArgs` may contain planning options such as `-target`.
//! Here the saved plan is applied, so [`UserArgs::for_plan`] moves these options to `plan`.

use super::PlanMode;

/// Argument lists of a template: `initArgs`, `planArgs`, `applyArgs`, `destroyArgs`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserArgs {
    /// Added to `init`.
    pub init: Vec<String>,
    /// Added to `plan`.
    pub plan: Vec<String>,
    /// Planning options are added to `plan`, all others to `apply`.
    pub apply: Vec<String>,
    /// The same for a destroy.
    pub destroy: Vec<String>,
}

/// An argument is not allowed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ArgsError {
    /// It would break the driver or expose a secret.
    #[error("{list}: `-{flag}` cannot be used here: {reason}")]
    Refused {
        /// `initArgs`, `planArgs`, …
        list: &'static str,
        /// The option, without its value.
        flag: String,
        /// Why, and what to do instead.
        reason: &'static str,
    },
    /// Not an option at all.
    #[error("{list}: `{text}` is not an option; options begin with `-`")]
    Operand {
        /// `initArgs`, `planArgs`, …
        list: &'static str,
        /// The argument.
        text: String,
    },
    /// An address, id or file name that terraform would parse as an option.
    #[error("the {what} `{text}` is empty or begins with `-`")]
    NotAnOperand {
        /// Kind of the operand.
        what: &'static str,
        /// The text.
        text: String,
    },
}

/// Options that are reserved for the driver, with the reason.
const REFUSED_OPTIONS: &[(&str, &str)] = &[
    ("json", "it is always on"),
    ("json-into", "the driver reads the event stream itself"),
    ("out", "the driver saves the plan and applies exactly that file"),
    ("input", "prompts cannot be answered; set the value in `vars`, `varFiles` or `varmap`"),
    (
        "var",
        "its value would be visible to all processes on the machine; set it in `vars`, `varFiles` or `varmap`",
    ),
    ("destroy", "delete the object instead, or use `capt destroy`"),
    ("refresh-only", "the driver chooses the kind of plan"),
    ("state", "the driver sets the state path; configure a backend instead"),
    ("state-out", "the driver sets the state path; configure a backend instead"),
    ("backup", "the driver keeps its own state snapshots"),
    ("chdir", "use `entrypoint`"),
    ("from-module", "use `source: Remote` with `module`"),
    ("backend", "a workspace without its backend has no state"),
    ("generate-config-out", "it would change the configuration that was rendered"),
    ("help", "it does not run the command"),
    ("h", "it does not run the command"),
    ("version", "it does not run the command"),
];

/// Options of `plan` that `apply` of a saved plan rejects.
const PLAN_OPTIONS: &[&str] =
    &["target", "target-file", "exclude", "exclude-file", "replace", "refresh", "var-file"];

/// Options whose value may be the next argument.
const OPTIONS_WITH_VALUE: &[&str] = &[
    "target",
    "target-file",
    "exclude",
    "exclude-file",
    "replace",
    "var-file",
    "parallelism",
    "lock-timeout",
    "backend-config",
    "plugin-dir",
    "lockfile",
];

/// The name of an option: `-target=x` and `--target` are `target`.
pub(super) fn option_name(arg: &str) -> Option<&str> {
    let name = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'))?;
    Some(name.split_once('=').map_or(name, |(name, _)| name))
}

/// Validates a positional argument.
pub(super) fn positional(what: &'static str, text: &str) -> Result<String, ArgsError> {
    if text.is_empty() || text.starts_with('-') {
        return Err(ArgsError::NotAnOperand { what, text: text.to_owned() });
    }
    Ok(text.to_owned())
}

/// Groups each option with a value in the following argument.
fn group_options(args: &[String]) -> impl Iterator<Item = (Option<&str>, &[String])> {
    let mut rest = args;
    std::iter::from_fn(move || {
        let name = option_name(rest.first()?);
        let apart = name.is_some_and(|name| OPTIONS_WITH_VALUE.contains(&name)) && !rest[0].contains('=');
        let (head, tail) = rest.split_at(if apart { rest.len().min(2) } else { 1 });
        rest = tail;
        Some((name, head))
    })
}

fn validate_list(list: &'static str, args: &[String]) -> Result<(), ArgsError> {
    for (name, words) in group_options(args) {
        let Some(name) = name else {
            return Err(ArgsError::Operand { list, text: words.concat() });
        };
        if let Some((flag, reason)) = REFUSED_OPTIONS.iter().find(|(refused, _)| *refused == name) {
            return Err(ArgsError::Refused { list, flag: (*flag).to_owned(), reason });
        }
    }
    Ok(())
}

/// A setting of a backend in the arguments: `-backend-config=NAME=VALUE`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct BackendSetting {
    pub(super) name: String,
    pub(super) value: String,
}

/// Replaces each setting of a backend by the argument for a file with it: values are credentials, and every process on the machine
/// sees the arguments.
pub(super) fn replace_backend_settings(
    args: &[String],
    mut file: impl FnMut(BackendSetting) -> String,
) -> Vec<String> {
    let mut replaced = Vec::new();
    for (name, words) in group_options(args) {
        let value = match words {
            [word] => word.split_once('=').map(|(_, value)| value),
            [_, value] => Some(value.as_str()),
            _ => None,
        };
        match value.and_then(|value| value.split_once('=')) {
            Some((setting, value)) if name == Some("backend-config") => {
                let setting = BackendSetting { name: setting.to_owned(), value: value.to_owned() };
                replaced.push(format!("-backend-config={}", file(setting)));
            }
            _ => replaced.extend_from_slice(words),
        }
    }
    replaced
}

impl UserArgs {
    /// Rejects arguments that would break the driver.
    pub fn validate(&self) -> Result<(), ArgsError> {
        let Self { init, plan, apply, destroy } = self;
        validate_list("initArgs", init)?;
        validate_list("planArgs", plan)?;
        validate_list("applyArgs", apply)?;
        validate_list("destroyArgs", destroy)
    }

    /// Arguments of `plan`: `planArgs` (not for a destroy, as upstream), then the planning options of `applyArgs` or
    /// `destroyArgs`.
    pub(super) fn for_plan(&self, mode: PlanMode) -> Vec<String> {
        let own: &[String] = if mode == PlanMode::Destroy { &[] } else { &self.plan };
        let mut all = own.to_vec();
        for (name, words) in group_options(self.apply_args(mode)) {
            let known = group_options(own).any(|(_, present)| present == words);
            if name.is_some_and(|name| PLAN_OPTIONS.contains(&name)) && !known {
                all.extend_from_slice(words);
            }
        }
        all
    }

    /// Arguments of `apply` for a saved plan, which implies `-auto-approve`.
    pub(super) fn for_apply(&self, mode: PlanMode) -> Vec<String> {
        group_options(self.apply_args(mode))
            .filter(|(name, _)| {
                name.is_none_or(|name| {
                    !PLAN_OPTIONS.contains(&name) && !matches!(name, "auto-approve" | "force")
                })
            })
            .flat_map(|(_, words)| words.iter().cloned())
            .collect()
    }

    fn apply_args(&self, mode: PlanMode) -> &[String] {
        match mode {
            PlanMode::Change | PlanMode::RefreshOnly => &self.apply,
            PlanMode::Destroy => &self.destroy,
        }
    }
}
