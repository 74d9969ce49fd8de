//! A directory with rendered files, and the real engine in it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use tempfile::TempDir;
use terraform_driver::{
    command::{CommandBuilder, Invocation, LockFileMode, PlanMode, UserArgs},
    engine::{self, Engine},
    environment::{Environment, EnvironmentInputs, TerraformCredentials},
    render::RenderedWorkspace,
};

pub(crate) struct EngineHarness {
    dir: TempDir,
    root: PathBuf,
    engine: Engine,
    environment: Environment,
}

impl EngineHarness {
    /// A fresh directory with these files.
    pub(crate) fn with(rendered: &RenderedWorkspace) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let config = dir.path().join("cli.tfrc");
        // Only an empty mirror, so that no test uses the network.
        let mirror = dir.path().join("mirror");
        let text = format!(
            "provider_installation {{\n  filesystem_mirror {{\n    path = \"{}\"\n  }}\n}}\n",
            mirror.display()
        );
        fs::create_dir_all(&mirror).unwrap();
        fs::write(&config, text).unwrap();
        let outer: BTreeMap<String, String> = [("PATH".to_owned(), path())].into();
        let inputs = EnvironmentInputs {
            cli_config: &config,
            home: dir.path(),
            tmp: dir.path(),
            credentials: TerraformCredentials::None,
            template: &[],
        };
        let environment = Environment::build(&outer, &inputs).unwrap();
        let candidate =
            engine::locate(None, path().as_ref(), dir.path()).expect("terraform or tofu is on PATH");
        let version = spawn(&Invocation {
            program: candidate.path.clone(),
            args: vec!["version".to_owned(), "-json".to_owned()],
            env: environment.variables().clone(),
            wrapper: Vec::new(),
            cwd: dir.path().to_owned(),
        });
        let engine = candidate.verify(&version.stdout).unwrap();
        let bench = Self { dir, root, engine, environment };
        bench.write(rendered);
        bench
    }

    pub(crate) fn write(&self, rendered: &RenderedWorkspace) {
        for (path, contents) in &rendered.files {
            let path = self.root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &contents.bytes).unwrap();
        }
    }

    pub(crate) fn commands(&self) -> CommandBuilder<'_> {
        self.commands_in(&self.root)
    }

    /// For another directory than the one with the files.
    pub(crate) fn commands_in<'a>(&'a self, root: &'a Path) -> CommandBuilder<'a> {
        let args = UserArgs::default();
        CommandBuilder::new(&self.engine, root, &self.environment, args, Duration::from_secs(5)).unwrap()
    }

    /// Runs a command that has to end with this code.
    pub(crate) fn run(&self, invocation: &Invocation, code: i32) -> Output {
        assert!(invocation.cwd.starts_with(self.dir.path()));
        let output = spawn(invocation);
        let said = || {
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        };
        assert_eq!(output.status.code(), Some(code), "{invocation}\n{}", said());
        output
    }

    /// Init, plan, apply.
    pub(crate) fn apply(&self) {
        let commands = self.commands();
        self.run(&commands.init(LockFileMode::Absent), 0);
        self.run(&commands.plan(PlanMode::Change), 2);
        self.run(&commands.apply(PlanMode::Change), 0);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }
}

#[expect(clippy::disallowed_methods, reason = "the test plays the process that starts the driver")]
fn path() -> String {
    std::env::var("PATH").unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test looks at command lines, not at how exec supervises them"
)]
fn spawn(invocation: &Invocation) -> Output {
    let Invocation { program, args, wrapper: _, env, cwd } = invocation;
    Command::new(program).args(args).env_clear().envs(env).current_dir(cwd).output().unwrap()
}
