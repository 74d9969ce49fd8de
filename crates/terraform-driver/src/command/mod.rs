//! Terraform command lines as values: program, arguments, environment, directory.
//!
//! Pure: starts no process and touches no file. No argument contains the value of a variable (values are in files with mode
//! 0600). The extra arguments of users are validated in [`args`].

pub mod args;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

pub use args::{ArgsError, UserArgs};

use crate::{engine::Engine, environment::Environment, source::ModuleSource};

/// File name of the saved plan, relative to the root module.
pub const PLAN_FILE: &str = "capt.tfplan";

/// A command that has not been started.
#[derive(Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The engine.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// The command line that confines it; empty if it is not confined.
    pub wrapper: Vec<String>,
    /// Complete environment; nothing is inherited.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: PathBuf,
}

/// Prints only the names of the environment variables: their values contain credentials.
impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, args, wrapper: _, env, cwd } = self;
        f.debug_struct("Invocation")
            .field("program", program)
            .field("args", args)
            .field("env", &env.keys().collect::<Vec<_>>())
            .field("cwd", cwd)
            .finish_non_exhaustive()
    }
}

/// The equivalent command line.
impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program.file_name().unwrap_or_default().to_string_lossy())?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

/// Mode of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlanMode {
    /// Apply the configuration.
    #[default]
    Change,
    /// Destroy everything in the state.
    Destroy,
    /// Update the state from the cloud; changes no resources.
    RefreshOnly,
}

/// How `init` treats the dependency lock file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockFileMode {
    /// A lock file was provided and is binding.
    Provided,
    /// There is none; `init` writes one.
    #[default]
    Absent,
}

/// Builds the commands of one workspace.
#[derive(Debug, Clone)]
pub struct CommandBuilder<'a> {
    engine: &'a Engine,
    root: &'a Path,
    environment: &'a Environment,
    args: UserArgs,
    lock_timeout: Duration,
}

impl<'a> CommandBuilder<'a> {
    /// Commands for the root module in `root`; validates `args`, the extra arguments of the template.
    pub fn new(
        engine: &'a Engine,
        root: &'a Path,
        environment: &'a Environment,
        args: UserArgs,
        lock_timeout: Duration,
    ) -> Result<Self, ArgsError> {
        args.validate()?;
        Ok(Self { engine, root, environment, args, lock_timeout })
    }

    /// `version -json`.
    pub fn version(&self) -> Invocation {
        self.invocation(["version", "-json"])
    }

    /// Fetches a remote module into `root`, which must be empty.
    pub fn fetch(&self, source: &ModuleSource) -> Invocation {
        self.invocation(["init", "-input=false", "-no-color", "-backend=false"])
            .with([format!("-from-module={}", source.address())])
    }

    /// `init`. A provided lock file is read-only unless the user passes `-upgrade`.
    pub fn init(&self, lock_file: LockFileMode) -> Invocation {
        let upgrade =
            self.args.init.iter().any(|arg| args::option_name(arg).is_some_and(|name| name == "upgrade"));
        let readonly = lock_file == LockFileMode::Provided && !upgrade;
        self.invocation(["init", "-json", "-input=false", "-no-color"])
            .with([self.lock_timeout()])
            .with(readonly.then(|| "-lockfile=readonly".to_owned()))
            .with(self.args.init.iter().cloned())
    }

    /// `validate`.
    pub fn validate(&self) -> Invocation {
        self.invocation(["validate", "-json", "-no-color"])
    }

    /// `plan`, saved to [`PLAN_FILE`]; exit code 2 means that there are changes.
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

    /// `untaint`, for a resource whose creation was interrupted.
    pub fn untaint(&self, address: &str) -> Result<Invocation, ArgsError> {
        let address = args::positional("resource address", address)?;
        Ok(self.invocation(["untaint", "-no-color"]).with([self.lock_timeout(), address]))
    }

    /// `state mv`: moves a resource to another address.
    pub fn state_mv(&self, from: &str, to: &str) -> Result<Invocation, ArgsError> {
        let from = args::positional("resource address", from)?;
        let to = args::positional("resource address", to)?;
        Ok(self.invocation(["state", "mv", "-no-color"]).with([self.lock_timeout(), from, to]))
    }

    /// `import`: takes an existing resource into the state.
    pub fn import(&self, address: &str, id: &str) -> Result<Invocation, ArgsError> {
        let address = args::positional("resource address", address)?;
        let id = args::positional("import id", id)?;
        Ok(self.invocation(["import", "-input=false", "-no-color"]).with([self.lock_timeout(), address, id]))
    }

    /// `state pull`: prints the state of the backend.
    pub fn state_pull(&self) -> Invocation {
        self.invocation(["state", "pull"])
    }

    /// `state push`: writes a state file, relative to the root, to the backend.
    pub fn state_push(&self, file: &str) -> Result<Invocation, ArgsError> {
        let file = args::positional("state file", file)?;
        Ok(self.invocation(["state", "push", "-no-color"]).with([self.lock_timeout(), file]))
    }

    fn lock_timeout(&self) -> String {
        format!("-lock-timeout={}s", self.lock_timeout.as_secs())
    }

    fn invocation<const N: usize>(&self, args: [&str; N]) -> Invocation {
        Invocation {
            program: self.engine.path.clone(),
            args: args.into_iter().map(str::to_owned).collect(),
            wrapper: self.environment.wrapper().to_vec(),
            env: self.environment.variables().clone(),
            cwd: self.root.to_owned(),
        }
    }
}

impl Invocation {
    /// Moves the settings of `-backend-config=NAME=VALUE` to files in `dir`, and returns these files.
    pub(crate) fn move_backend_settings(&mut self, dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        let args = std::mem::take(&mut self.args);
        self.args = args::replace_backend_settings(&args, |setting| {
            let path = dir.join(format!("backend-config-{}.json", files.len()));
            let shown = path.display().to_string();
            // In JSON, terraform reads a text as a template.
            let value = setting.value.replace("${", "$${").replace("%{", "%%{");
            files.push((path, serde_json::json!({ setting.name: value }).to_string().into_bytes()));
            shown
        });
        files
    }

    /// Program and arguments, with the wrapper.
    pub fn command_line(&self) -> (PathBuf, Vec<String>) {
        match self.wrapper.as_slice() {
            [] => (self.program.clone(), self.args.clone()),
            [first, rest @ ..] => {
                let program = self.program.display().to_string();
                let rest = rest.iter().cloned().chain([program]).chain(self.args.iter().cloned());
                (first.into(), rest.collect())
            }
        }
    }

    fn with(mut self, more: impl IntoIterator<Item = String>) -> Self {
        self.args.extend(more);
        self
    }
}

#[cfg(test)]
mod tests;
