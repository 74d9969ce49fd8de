//! Terraform as a person types it: the same files and the same clean environment, nobody in between.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use terraform_driver::environment::{Credentials, Environment, Inputs};

use crate::{
    capt::Capt,
    process::{Cost, Typed},
};

/// `plan -detailed-exitcode` has found something to do.
const CHANGES: i32 = 2;

/// A rendered directory, ready for `init`.
pub(crate) struct Bare<'a> {
    capt: &'a Capt,
    env: BTreeMap<String, String>,
    dir: PathBuf,
}

impl<'a> Bare<'a> {
    /// Renders the workspace of a manifest into an empty directory. The CLI configuration is the one that capt
    /// wrote for itself, so both find the same providers.
    pub(crate) fn rendered(capt: &'a Capt, manifest: &Path) -> anyhow::Result<Self> {
        let out = capt.scratch().join("bare");
        if out.exists() {
            fs::remove_dir_all(&out)?;
        }
        let (file, to) = (manifest.display().to_string(), out.display().to_string());
        let said = capt.plain(&["render", &file, "-o", &to])?;
        let dir = said.lines().rfind(|line| line.starts_with(&to)).context("nothing was rendered")?;
        let inputs = Inputs {
            cli_config: &capt.data().join("cli.tfrc"),
            home: &capt.data().join("home"),
            tmp: Path::new(capt.outer().get("TMPDIR").map_or("/tmp", String::as_str)),
            credentials: Credentials::None,
            template: &[],
        };
        let env = Environment::build(capt.outer(), &inputs)?.variables().clone();
        Ok(Self { capt, env, dir: dir.into() })
    }

    /// `init`, `plan`, `apply`.
    pub(crate) fn first(&self) -> anyhow::Result<Cost> {
        let init = self.terraform(&["init", "-input=false"], 0)?;
        let plan =
            self.terraform(&["plan", "-input=false", "-detailed-exitcode", "-out=typed.tfplan"], CHANGES)?;
        Ok(init + plan + self.terraform(&["apply", "-input=false", "typed.tfplan"], 0)?)
    }

    /// `plan` of what is there already.
    pub(crate) fn check(&self) -> anyhow::Result<Cost> {
        self.terraform(&["plan", "-input=false", "-detailed-exitcode"], 0)
    }

    fn terraform(&self, args: &[&str], expect: i32) -> anyhow::Result<Cost> {
        let program = &self.capt.versions.engine_path;
        let log = self.capt.scratch().join("bare.log");
        Typed { program, args, env: &self.env, cwd: &self.dir, expect, log }.run()
    }
}
