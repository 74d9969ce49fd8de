//! The files that a command works on.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;

use super::output;
use crate::{
    blueprint::{Blueprint, blueprints},
    config::Outer,
    manifest::{self, Source, ValidatedManifests},
    model::Limits,
};

/// Which files.
#[derive(Debug, Clone, Args)]
pub(super) struct Files {
    /// Manifests: YAML or JSON files, directories of them, or `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// What they say.
pub(super) struct Asked {
    pub(super) manifests: ValidatedManifests,
    pub(super) blueprints: Vec<Blueprint>,
}

impl Files {
    /// Reads them; everything that is wrong with them is said at once.
    pub(super) fn read(&self, outer: &Outer) -> anyhow::Result<Asked> {
        let mut sources = Vec::new();
        for path in &self.files {
            sources.extend(read(path, outer)?);
        }
        let loaded = manifest::load(&sources).map_err(problems)?;
        let manifests = manifest::validate(&loaded, &Limits::default()).map_err(problems)?;
        for warning in &manifests.warnings {
            output::warn(&warning.to_string());
        }
        let blueprints = blueprints(&manifests).map_err(problems)?;
        if blueprints.is_empty() {
            bail!(
                "there is nothing to make in {}; add a CAPTCluster, a CAPTControlPlane or a WorkspaceTemplateApply",
                names(&self.files)
            );
        }
        Ok(Asked { manifests, blueprints })
    }
}

fn read(path: &Path, outer: &Outer) -> anyhow::Result<Vec<Source>> {
    if path == Path::new("-") {
        let text = std::io::read_to_string(std::io::stdin()).context("reading standard input")?;
        return Ok(vec![Source { name: "standard input".to_owned(), text }]);
    }
    let real = outer.absolute(path);
    let hint = || format!("cannot read {}; name a file that exists", path.display());
    if !real.is_dir() {
        return Ok(vec![one(path, &real).with_context(hint)?]);
    }
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&real).with_context(hint)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|kind| ["yaml", "yml", "json"].iter().any(|it| kind == *it)));
    files.sort();
    if files.is_empty() {
        bail!("{} holds no .yaml, .yml or .json file", path.display());
    }
    files
        .iter()
        .map(|file| {
            let shown = path.join(file.file_name().unwrap_or_default());
            one(&shown, file).with_context(|| format!("cannot read {}", shown.display()))
        })
        .collect()
}

fn one(shown: &Path, real: &Path) -> anyhow::Result<Source> {
    let bytes = std::fs::read(real)?;
    let text = String::from_utf8(bytes).map_err(|_| anyhow!("it is not UTF-8 text"))?;
    Ok(Source { name: shown.display().to_string(), text })
}

/// One line each.
fn problems<E: std::fmt::Display>(all: Vec<E>) -> anyhow::Error {
    let lines: Vec<String> = all.iter().map(ToString::to_string).collect();
    match lines.as_slice() {
        [line] => anyhow!("{line}"),
        lines => anyhow!("{} problems\n  {}", lines.len(), lines.join("\n  ")),
    }
}

fn names(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}
