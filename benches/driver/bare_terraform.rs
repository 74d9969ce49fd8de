//! Bare terraform on the command line: the same files and the same clean environment, without capt.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use terraform_driver::environment::{Environment, EnvironmentInputs, TerraformCredentials};

use crate::{
    capt::Capt,
    process::{BenchCommand, Cost},
};

/// `plan -detailed-exitcode` has found something to do.
const CHANGES: i32 = 2;

/// A rendered directory, ready for `init`.
pub(crate) struct BareTerraform<'a> {
    capt: &'a Capt,
    env: BTreeMap<String, String>,
    dir: PathBuf,
}

impl<'a> BareTerraform<'a> {
    /// Renders the workspace of a manifest into an empty directory. The CLI configuration is the one that capt
    /// wrote for itself, so both find the same providers.
    pub(crate) fn new(capt: &'a Capt, manifest: &Path) -> anyhow::Result<Self> {
        let out = capt.scratch().join("bare");
        if out.exists() {
            fs::remove_dir_all(&out)?;
        }
        let (file, to) = (manifest.display().to_string(), out.display().to_string());
        let said = capt.run(&["render", &file, "-o", &to])?;
        let dir = said.lines().rfind(|line| line.starts_with(&to)).context("nothing was rendered")?;
        let inputs = EnvironmentInputs {
            cli_config: &capt.data().join("cli.tfrc"),
            home: &capt.data().join("home"),
            tmp: Path::new(capt.env().get("TMPDIR").map_or("/tmp", String::as_str)),
            credentials: TerraformCredentials::None,
            template: &[],
        };
        let env = Environment::build(capt.env(), &inputs)?.variables().clone();
        Ok(Self { capt, env, dir: dir.into() })
    }

    /// `init`, `plan`, `apply`.
    pub(crate) fn init_and_apply(&self) -> anyhow::Result<Cost> {
        let init = self.terraform(&["init", "-input=false"], 0)?;
        let plan =
            self.terraform(&["plan", "-input=false", "-detailed-exitcode", "-out=typed.tfplan"], CHANGES)?;
        Ok(init + plan + self.terraform(&["apply", "-input=false", "typed.tfplan"], 0)?)
    }

    /// `plan` of what is there already.
    pub(crate) fn plan_unchanged(&self) -> anyhow::Result<Cost> {
        self.terraform(&["plan", "-input=false", "-detailed-exitcode"], 0)
    }

    fn terraform(&self, args: &[&str], expect: i32) -> anyhow::Result<Cost> {
        let program = &self.capt.versions.engine_path;
        let log = self.capt.scratch().join("bare.log");
        BenchCommand { program, args, env: &self.env, cwd: &self.dir, expect, log }.run()
    }
}
