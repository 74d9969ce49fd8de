//! Terraform commands as values: program, arguments, environment, directory.
//!
//! Contract: nothing here starts a process or touches a file, and no argument ever holds the value of a variable
//! (values travel in files that only we can read). What the user may add is decided in [`args`].

pub mod args;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

pub use args::{ArgsError, UserArgs};

use crate::{engine::Engine, environment::Environment};

/// The saved plan, relative to the directory terraform runs in.
pub const PLAN_FILE: &str = "capt.tfplan";

/// A command that has not been started.
#[derive(Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The engine.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment; nothing is inherited.
    pub env: BTreeMap<String, String>,
    /// Where it runs.
    pub cwd: PathBuf,
}

/// The environment holds credentials, so only the names of its variables are printed.
impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, args, env, cwd } = self;
        f.debug_struct("Invocation")
            .field("program", program)
            .field("args", args)
            .field("env", &env.keys().collect::<Vec<_>>())
            .field("cwd", cwd)
            .finish()
    }
}

/// Shown to people: the line they would type.
impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program.file_name().unwrap_or_default().to_string_lossy())?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

/// What a plan is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlanMode {
    /// Bring the cloud to what the configuration says.
    #[default]
    Change,
    /// Bring everything in the state to an end.
    Destroy,
    /// Look at the cloud and record what is there; changes nothing but the state.
    RefreshOnly,
}

/// How `init` treats the dependency lock file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockFile {
    /// A lock file was rendered and must be obeyed.
    Shipped,
    /// There is none; init writes one.
    #[default]
    Absent,
}

/// Builds the commands of one workspace.
#[derive(Debug, Clone)]
pub struct Commands<'a> {
    engine: &'a Engine,
    root: &'a Path,
    environment: &'a Environment,
    args: UserArgs,
    lock_timeout: Duration,
}

impl<'a> Commands<'a> {
    /// For the root module in `root`; `args` is what the template adds, checked.
    pub fn new(
        engine: &'a Engine,
        root: &'a Path,
        environment: &'a Environment,
        args: UserArgs,
        lock_timeout: Duration,
    ) -> Result<Self, ArgsError> {
        args.check()?;
        Ok(Self { engine, root, environment, args, lock_timeout })
    }

    /// `version -json`.
    pub fn version(&self) -> Invocation {
        self.invocation(["version", "-json"])
    }

    /// Fetches a remote root into `root`, which has to be empty.
    pub fn fetch(&self, address: &str) -> Invocation {
        self.invocation(["init", "-input=false", "-no-color", "-backend=false"])
            .with([format!("-from-module={address}")])
    }

    /// `init`. A lock file that was shipped is read-only unless the user asks for an upgrade.
    pub fn init(&self, lock_file: LockFile) -> Invocation {
        let upgrade = self.args.init.iter().any(|arg| args::flag(arg).is_some_and(|name| name == "upgrade"));
        let readonly = lock_file == LockFile::Shipped && !upgrade;
        self.invocation(["init", "-json", "-input=false", "-no-color"])
            .with([self.lock_timeout()])
            .with(readonly.then(|| "-lockfile=readonly".to_owned()))
            .with(self.args.init.iter().cloned())
    }

    /// `validate`.
    pub fn validate(&self) -> Invocation {
        self.invocation(["validate", "-json", "-no-color"])
    }

    /// `plan`, saved to [`PLAN_FILE`]; exit code 2 means that there is something to do.
    pub fn plan(&self, mode: PlanMode) -> Invocation {
        let mode_flag = match mode {
            PlanMode::Change => None,
            PlanMode::Destroy => Some("-destroy".to_owned()),
            PlanMode::RefreshOnly => Some("-refresh-only".to_owned()),
        };
        self.invocation(["plan", "-json", "-input=false", "-no-color", "-detailed-exitcode"])
            .with([self.lock_timeout(), format!("-out={PLAN_FILE}")])
            .with(mode_flag)
            .with(self.args.for_plan(mode))
    }

    /// `apply` of the saved plan; a plan made with [`PlanMode::Destroy`] destroys.
    pub fn apply(&self, mode: PlanMode) -> Invocation {
        self.invocation(["apply", "-json", "-input=false", "-no-color"])
            .with([self.lock_timeout()])
            .with(self.args.for_apply(mode))
            .with([PLAN_FILE.to_owned()])
    }

    /// The saved plan as JSON.
    pub fn show_plan(&self) -> Invocation {
        self.invocation(["show", "-json", "-no-color", PLAN_FILE])
    }

    /// Takes the taint off an object that only our interruption put there.
    pub fn untaint(&self, address: &str) -> Result<Invocation, ArgsError> {
        let address = args::operand("resource address", address)?;
        Ok(self.invocation(["untaint", "-no-color"]).with([self.lock_timeout(), address]))
    }

    /// Gives an object of the state another address.
    pub fn state_mv(&self, from: &str, to: &str) -> Result<Invocation, ArgsError> {
        let from = args::operand("resource address", from)?;
        let to = args::operand("resource address", to)?;
        Ok(self.invocation(["state", "mv", "-no-color"]).with([self.lock_timeout(), from, to]))
    }

    /// Takes an object that exists into the state.
    pub fn import(&self, address: &str, id: &str) -> Result<Invocation, ArgsError> {
        let address = args::operand("resource address", address)?;
        let id = args::operand("import id", id)?;
        Ok(self.invocation(["import", "-input=false", "-no-color"]).with([self.lock_timeout(), address, id]))
    }

    /// The state, wherever the backend keeps it.
    pub fn state_pull(&self) -> Invocation {
        self.invocation(["state", "pull"])
    }

    /// Puts a state file, relative to the root, in the backend's place.
    pub fn state_push(&self, file: &str) -> Result<Invocation, ArgsError> {
        let file = args::operand("state file", file)?;
        Ok(self.invocation(["state", "push", "-no-color"]).with([self.lock_timeout(), file]))
    }

    fn lock_timeout(&self) -> String {
        format!("-lock-timeout={}s", self.lock_timeout.as_secs())
    }

    fn invocation<const N: usize>(&self, args: [&str; N]) -> Invocation {
        Invocation {
            program: self.engine.path.clone(),
            args: args.into_iter().map(str::to_owned).collect(),
            env: self.environment.variables().clone(),
            cwd: self.root.to_owned(),
        }
    }
}

impl Invocation {
    fn with(mut self, more: impl IntoIterator<Item = String>) -> Self {
        self.args.extend(more);
        self
    }
}

#[cfg(test)]
mod tests;
