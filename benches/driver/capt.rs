//! The `capt` of this build with a data directory of its own.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use capt_engine::process_env::ProcessEnv;
use serde::Deserialize;
use tempfile::TempDir;

use crate::{
    print_line,
    process::{BenchCommand, Cost},
    terraform_wrapper::{CommandCpu, TerraformWrapper},
};

/// `capt` and where it works.
pub(crate) struct Capt {
    scratch: TempDir,
    env: BTreeMap<String, String>,
    meter: TerraformWrapper,
    pub(crate) versions: Versions,
}

/// What `capt version -o json` says.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Versions {
    pub(crate) engine: String,
    pub(crate) engine_path: PathBuf,
    pub(crate) providers: Vec<String>,
}

/// What `capt aws status -o json` says.
#[derive(Deserialize)]
struct Status {
    pid: Option<u32>,
}

/// A command of capt: what it took, and how much of that was terraform.
pub(crate) struct MeteredRun {
    pub(crate) cost: Cost,
    pub(crate) spent: Vec<CommandCpu>,
}

impl Capt {
    /// Finds terraform the way capt does, and takes a place to work in.
    pub(crate) fn new(process_env: &ProcessEnv) -> anyhow::Result<Self> {
        let scratch = tempfile::tempdir()?;
        let mut env = process_env.env.clone();
        // Settings of the person who runs the bench; where the engine and the providers are stays valid.
        env.retain(|name, _| !["CAPT_AWS", "CAPT_DATA"].contains(&name.as_str()));
        // What the driver costs beside a bare terraform, which starts its providers itself.
        env.insert("CAPT_GATEWAY".to_owned(), "false".to_owned());
        let (_, said) = run_capt(scratch.path(), &env, &["version", "-o", "json"])?;
        let versions: Versions =
            serde_json::from_str(&said).with_context(|| format!("no usable terraform: {said}"))?;
        let meter = TerraformWrapper::install(scratch.path(), &versions.engine_path)?;
        Ok(Self { scratch, env, meter, versions })
    }

    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.scratch().join("data")
    }

    /// The caller's environment.
    pub(crate) fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// The directory of a workspace.
    pub(crate) fn workspace_dir(&self, name: &str) -> PathBuf {
        self.data().join("workspaces/default").join(name)
    }

    /// How many terraform commands the workspace remembers.
    pub(crate) fn count_runs(&self, name: &str) -> anyhow::Result<usize> {
        Ok(fs::read_dir(self.workspace_dir(name).join(".capt/runs"))?.count())
    }

    /// Runs a command that starts no terraform; what it printed.
    pub(crate) fn run(&self, args: &[&str]) -> anyhow::Result<String> {
        let data = self.data().display().to_string();
        let args = [args, &["--data", &data]].concat();
        Ok(run_capt(self.scratch(), &self.env, &args)?.1)
    }

    /// Runs `apply` or `plan` on a file.
    pub(crate) fn run_metered(&self, command: &str, manifest: &Path) -> anyhow::Result<MeteredRun> {
        let (data, engine) = (self.data().display().to_string(), self.meter.program.display().to_string());
        let manifest = manifest.display().to_string();
        let args = [command, &manifest, "--data", &data, "--engine", &engine];
        let (cost, _) = run_capt(self.scratch(), &self.env, &args)?;
        let spent = self.meter.drain()?;
        ensure!(!spent.is_empty(), "capt {command} started no terraform");
        let stand_in = spent.iter().map(|spent| spent.stand_in).sum();
        Ok(MeteredRun { cost: cost - Cost { cpu: stand_in, ..Cost::default() }, spent })
    }

    /// Starts the local AWS, as a process that is no child of ours: its CPU must not count.
    pub(crate) fn start_aws(&self) -> anyhow::Result<RunningAws<'_>> {
        print_line("starting the local AWS");
        let aws = RunningAws(self);
        self.run(&["aws", "start"])?;
        let status: Status = serde_json::from_str(&self.run(&["aws", "status", "-o", "json"])?)?;
        let pid = status.pid.context("the local AWS does not run")?;
        ensure!(parent_pid(pid)? != std::process::id(), "the local AWS is a child of this bench");
        Ok(aws)
    }
}

/// The running local AWS; it ends with this value.
pub(crate) struct RunningAws<'a>(&'a Capt);

impl Drop for RunningAws<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.run(&["aws", "stop"]) {
            print_line(&format!("the local AWS was not stopped: {error:#}"));
        }
    }
}

fn run_capt(dir: &Path, env: &BTreeMap<String, String>, args: &[&str]) -> anyhow::Result<(Cost, String)> {
    let program = Path::new(env!("CARGO_BIN_EXE_capt"));
    let typed = BenchCommand { program, args, env, cwd: dir, expect: 0, log: dir.join("capt.log") };
    let cost = typed.run()?;
    Ok((cost, typed.output()?))
}

fn parent_pid(pid: u32) -> anyhow::Result<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    Ok(line.context("a process without a parent")?.trim().parse()?)
}
