//! The `capt` of this build with a data directory of its own.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use capt::config::Outer;
use serde::Deserialize;
use tempfile::TempDir;

use crate::{
    meter::{Meter, Spent},
    process::{Cost, Typed},
    say,
};

/// `capt` and where it works.
pub(crate) struct Capt {
    scratch: TempDir,
    env: BTreeMap<String, String>,
    meter: Meter,
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
pub(crate) struct Metered {
    pub(crate) cost: Cost,
    pub(crate) spent: Vec<Spent>,
}

impl Capt {
    /// Finds terraform the way capt does, and takes a place to work in.
    pub(crate) fn new(outer: &Outer) -> anyhow::Result<Self> {
        let scratch = tempfile::tempdir()?;
        let mut env = outer.env.clone();
        // Settings of the person who runs the bench; where the engine and the providers are stays valid.
        env.retain(|name, _| !["CAPT_AWS", "CAPT_DATA"].contains(&name.as_str()));
        // What the driver costs beside a bare terraform, which starts its providers itself.
        env.insert("CAPT_GATEWAY".to_owned(), "false".to_owned());
        let (_, said) = typed(scratch.path(), &env, &["version", "-o", "json"])?;
        let versions: Versions =
            serde_json::from_str(&said).with_context(|| format!("no usable terraform: {said}"))?;
        let meter = Meter::install(scratch.path(), &versions.engine_path)?;
        Ok(Self { scratch, env, meter, versions })
    }

    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.scratch().join("data")
    }

    /// The caller's environment.
    pub(crate) fn outer(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// The directory of a workspace.
    pub(crate) fn workspace(&self, name: &str) -> PathBuf {
        self.data().join("workspaces/default").join(name)
    }

    /// How many terraform commands the workspace remembers.
    pub(crate) fn runs(&self, name: &str) -> anyhow::Result<usize> {
        Ok(fs::read_dir(self.workspace(name).join(".capt/runs"))?.count())
    }

    /// Runs a command that starts no terraform; what it printed.
    pub(crate) fn plain(&self, args: &[&str]) -> anyhow::Result<String> {
        let data = self.data().display().to_string();
        let args = [args, &["--data", &data]].concat();
        Ok(typed(self.scratch(), &self.env, &args)?.1)
    }

    /// Runs `apply` or `plan` on a file.
    pub(crate) fn metered(&self, command: &str, manifest: &Path) -> anyhow::Result<Metered> {
        let (data, engine) = (self.data().display().to_string(), self.meter.program.display().to_string());
        let manifest = manifest.display().to_string();
        let args = [command, &manifest, "--data", &data, "--engine", &engine];
        let (cost, _) = typed(self.scratch(), &self.env, &args)?;
        let spent = self.meter.take()?;
        ensure!(!spent.is_empty(), "capt {command} started no terraform");
        let stand_in = spent.iter().map(|spent| spent.stand_in).sum();
        Ok(Metered { cost: cost - Cost { cpu: stand_in, ..Cost::default() }, spent })
    }

    /// Starts the local AWS, as a process that is no child of ours: its CPU must not count.
    pub(crate) fn start_aws(&self) -> anyhow::Result<Aws<'_>> {
        say("starting the local AWS");
        let aws = Aws(self);
        self.plain(&["aws", "start"])?;
        let status: Status = serde_json::from_str(&self.plain(&["aws", "status", "-o", "json"])?)?;
        let pid = status.pid.context("the local AWS does not run")?;
        ensure!(parent(pid)? != std::process::id(), "the local AWS is a child of this bench");
        Ok(aws)
    }
}

/// The running local AWS; it ends with this value.
pub(crate) struct Aws<'a>(&'a Capt);

impl Drop for Aws<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.plain(&["aws", "stop"]) {
            say(&format!("the local AWS was not stopped: {error:#}"));
        }
    }
}

fn typed(dir: &Path, env: &BTreeMap<String, String>, args: &[&str]) -> anyhow::Result<(Cost, String)> {
    let program = Path::new(env!("CARGO_BIN_EXE_capt"));
    let typed = Typed { program, args, env, cwd: dir, expect: 0, log: dir.join("capt.log") };
    let cost = typed.run()?;
    Ok((cost, typed.said()?))
}

fn parent(pid: u32) -> anyhow::Result<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    Ok(line.context("a process without a parent")?.trim().parse()?)
}
