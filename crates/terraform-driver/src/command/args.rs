//! What a template may add to terraform's command lines.
//!
//! Contract: an argument that would break the driver (its event stream, its saved plan, its state file) or put a
//! variable's value where every process of the machine can read it is refused by name, with the remedy. Everything
//! else passes.
//!
//! Upstream applies without a saved plan, so its `applyArgs` and `destroyArgs` may hold planning options such as
//! `-target`. They belong to the plan here, because the plan is what gets applied: [`UserArgs::for_plan`] moves them.

use super::PlanMode;

/// The lists of a template: `initArgs`, `planArgs`, `applyArgs`, `destroyArgs`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserArgs {
    /// Added to `init`.
    pub init: Vec<String>,
    /// Added to `plan`.
    pub plan: Vec<String>,
    /// Added to what applies: planning options to the plan, the rest to `apply`.
    pub apply: Vec<String>,
    /// The same for a destroy.
    pub destroy: Vec<String>,
}

/// An argument that cannot be passed on.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ArgsError {
    /// It would break the driver, or tell a secret.
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
    /// An address, id or file name that terraform would take for an option.
    #[error("the {what} `{text}` is empty or begins with `-`")]
    NotAnOperand {
        /// What it was meant to be.
        what: &'static str,
        /// The text.
        text: String,
    },
}

/// Options with the reason that they are ours.
const REFUSED: &[(&str, &str)] = &[
    ("json", "it is always on"),
    ("json-into", "the driver reads the event stream itself"),
    ("out", "the driver saves the plan and applies exactly that file"),
    ("input", "nobody can answer; give the value in `vars`, `varFiles` or `varmap`"),
    (
        "var",
        "its value would be visible to every process of the machine; put it in `vars`, `varFiles` or `varmap`",
    ),
    ("destroy", "delete the object instead, or use `capt destroy`"),
    ("refresh-only", "the driver chooses the kind of plan"),
    ("state", "the state file has one place; configure a backend instead"),
    ("state-out", "the state file has one place; configure a backend instead"),
    ("backup", "the driver keeps every state itself"),
    ("chdir", "use `entrypoint`"),
    ("from-module", "use `source: Remote` with `module`"),
    ("backend", "a workspace without its backend has no state"),
    ("generate-config-out", "it would change the configuration that was rendered"),
    ("help", "it is no run"),
    ("h", "it is no run"),
    ("version", "it is no run"),
];

/// Options of `plan` that `apply` of a saved plan does not take.
const PLANNING: &[&str] =
    &["target", "target-file", "exclude", "exclude-file", "replace", "refresh", "var-file"];

/// Options whose value may stand in the next argument.
const TAKES_VALUE: &[&str] = &[
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
pub(super) fn flag(arg: &str) -> Option<&str> {
    let name = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'))?;
    Some(name.split_once('=').map_or(name, |(name, _)| name))
}

/// Checks a positional argument of ours.
pub(super) fn operand(what: &'static str, text: &str) -> Result<String, ArgsError> {
    if text.is_empty() || text.starts_with('-') {
        return Err(ArgsError::NotAnOperand { what, text: text.to_owned() });
    }
    Ok(text.to_owned())
}

/// Groups options with the value that stands in the argument behind them.
fn options(args: &[String]) -> impl Iterator<Item = (Option<&str>, &[String])> {
    let mut rest = args;
    std::iter::from_fn(move || {
        let name = flag(rest.first()?);
        let apart = name.is_some_and(|name| TAKES_VALUE.contains(&name)) && !rest[0].contains('=');
        let (head, tail) = rest.split_at(if apart { rest.len().min(2) } else { 1 });
        rest = tail;
        Some((name, head))
    })
}

fn check_list(list: &'static str, args: &[String]) -> Result<(), ArgsError> {
    for (name, words) in options(args) {
        let Some(name) = name else {
            return Err(ArgsError::Operand { list, text: words.concat() });
        };
        if let Some((flag, reason)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Err(ArgsError::Refused { list, flag: (*flag).to_owned(), reason });
        }
    }
    Ok(())
}

impl UserArgs {
    /// Refuses what would break the driver.
    pub fn check(&self) -> Result<(), ArgsError> {
        let Self { init, plan, apply, destroy } = self;
        check_list("initArgs", init)?;
        check_list("planArgs", plan)?;
        check_list("applyArgs", apply)?;
        check_list("destroyArgs", destroy)
    }

    /// What the plan gets: `planArgs` (not for a destroy, as upstream), then the planning options of the list that
    /// belongs to what follows.
    pub(super) fn for_plan(&self, mode: PlanMode) -> Vec<String> {
        let own: &[String] = if mode == PlanMode::Destroy { &[] } else { &self.plan };
        let mut all = own.to_vec();
        for (name, words) in options(self.carrying_out(mode)) {
            let known = options(own).any(|(_, present)| present == words);
            if name.is_some_and(|name| PLANNING.contains(&name)) && !known {
                all.extend_from_slice(words);
            }
        }
        all
    }

    /// What the apply of a saved plan gets. `-auto-approve` is implied by the plan.
    pub(super) fn for_apply(&self, mode: PlanMode) -> Vec<String> {
        options(self.carrying_out(mode))
            .filter(|(name, _)| {
                name.is_none_or(|name| !PLANNING.contains(&name) && !matches!(name, "auto-approve" | "force"))
            })
            .flat_map(|(_, words)| words.iter().cloned())
            .collect()
    }

    fn carrying_out(&self, mode: PlanMode) -> &[String] {
        match mode {
            PlanMode::Change | PlanMode::RefreshOnly => &self.apply,
            PlanMode::Destroy => &self.destroy,
        }
    }
}
