//! The files that a command works on.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use terraform_driver::{
    environment::check,
    render::{RenderError, render},
};

use super::{output, work::secrets};
use crate::{
    blueprint::{Blueprint, Body, Known, Place, blueprints, resolve},
    config::Outer,
    manifest::{self, Source, ValidatedManifests},
    model::{Limits, template::TemplateSource},
};

/// Which files.
#[derive(Debug, Clone, Args)]
pub(super) struct Files {
    /// Manifests: YAML or JSON files, directories of them, or `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    paths: Vec<PathBuf>,
    /// Selectors that a Fargate profile may have; a quota of the account.
    #[arg(long, value_name = "N", default_value_t = Limits::default().selectors_per_profile, hide_short_help = true)]
    limit_selectors_per_profile: usize,
    /// Labels that a selector may have; a quota of the account.
    #[arg(long, value_name = "N", default_value_t = Limits::default().labels_per_selector, hide_short_help = true)]
    limit_labels_per_selector: usize,
    /// Fargate profiles that a cluster may have; a quota of the account.
    #[arg(long, value_name = "N", default_value_t = Limits::default().profiles_per_cluster, hide_short_help = true)]
    limit_profiles_per_cluster: usize,
}

/// What they say.
pub(super) struct Asked {
    pub(super) manifests: ValidatedManifests,
    pub(super) blueprints: Vec<Blueprint>,
}

impl Files {
    const fn limits(&self) -> Limits {
        Limits {
            selectors_per_profile: self.limit_selectors_per_profile,
            labels_per_selector: self.limit_labels_per_selector,
            profiles_per_cluster: self.limit_profiles_per_cluster,
        }
    }

    /// Reads them; everything that is wrong with them is said at once.
    pub(super) fn read(&self, outer: &Outer) -> anyhow::Result<Asked> {
        let mut sources = Vec::new();
        for path in &self.paths {
            sources.extend(read(path, outer)?);
        }
        let loaded = manifest::load(&sources).map_err(problems)?;
        let manifests = manifest::validate(&loaded, &self.limits()).map_err(problems)?;
        for warning in &manifests.warnings {
            output::warn(&warning.to_string());
        }
        let blueprints = blueprints(&manifests).map_err(problems)?;
        if blueprints.is_empty() {
            bail!(
                "there is nothing to make in {}; add a CAPTCluster, a CAPTControlPlane or a WorkspaceTemplateApply",
                names(&self.paths)
            );
        }
        let asked = Asked { manifests, blueprints };
        asked.check_templates()?;
        Ok(asked)
    }
}

impl Asked {
    /// Renders what users wrote for nothing but its verdict, so that no command begins and then finds a text
    /// that cannot be used. What comes from other workspaces is not there yet, and not missed.
    fn check_templates(&self) -> anyhow::Result<()> {
        let (known, secrets) = (Known::default(), secrets(&self.blueprints));
        let place = Place { local_endpoint: None, default_region: String::new() };
        let mut wrong = Vec::new();
        for blueprint in self.blueprints.iter().filter(|it| matches!(it.body, Body::Template { .. })) {
            match resolve(blueprint, &known, &self.manifests, &secrets, &place) {
                Err(error) => wrong.push(in_file(blueprint, &error.to_string())),
                Ok(resolved) => {
                    let args = resolved.args.check().err().map(|error| error.to_string());
                    let env = resolved.env.iter().filter_map(|(name, value)| check(name, value).err());
                    let refused = args.into_iter().chain(env.map(|error| error.to_string()));
                    wrong.extend(refused.map(|said| in_file(blueprint, &format!("forProvider.{said}"))));
                    wrong.extend(render(&resolved.request).err().map(|it| not_rendered(blueprint, &it)));
                }
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(problems(wrong)) }
    }
}

/// Why a workspace cannot be rendered, with the file and the field that say so.
pub(super) fn not_rendered(blueprint: &Blueprint, error: &RenderError) -> String {
    let is_inline = matches!(&blueprint.body, Body::Template { template, .. }
        if matches!(template.source, TemplateSource::Inline { .. }));
    let said = match error {
        RenderError::Parse { file, line, reason } if is_inline && file.starts_with("main.tf") => {
            format!("forProvider.module, line {line}: {reason}; correct the text there")
        }
        RenderError::Parse { .. } => format!("{error}; correct the text there"),
        RenderError::Undeclared { .. } | RenderError::NotLiteral { .. } => format!("forProvider.{error}"),
        _ => error.to_string(),
    };
    in_file(blueprint, &said)
}

/// A message about a workspace that begins with the file of its template, if it has one.
pub(super) fn in_file(blueprint: &Blueprint, said: &str) -> String {
    match &blueprint.body {
        Body::Template { file, .. } => format!("{file}: the template of {}: {said}", blueprint.owner),
        Body::Module { .. } => format!("{}: {said}", blueprint.owner),
    }
}

/// What a file says, or each file of a directory, or standard input.
pub(super) fn read(path: &Path, outer: &Outer) -> anyhow::Result<Vec<Source>> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
        return Ok(vec![source("standard input".to_owned(), bytes)?]);
    }
    let real = outer.absolute(path);
    let hint = || format!("cannot read {}; name a file that exists", path.display());
    if !real.is_dir() {
        let bytes = std::fs::read(&real).with_context(hint)?;
        return Ok(vec![source(path.display().to_string(), bytes)?]);
    }
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&real).with_context(hint)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| {
        file.extension().is_some_and(|kind| ["yaml", "yml", "json"].iter().any(|it| kind == *it))
    });
    files.sort();
    if files.is_empty() {
        bail!(
            "{} holds no .yaml, .yml or .json file; name a file, or a directory with manifests",
            path.display()
        );
    }
    files
        .iter()
        .map(|file| {
            let shown = path.join(file.file_name().unwrap_or_default()).display().to_string();
            let bytes = std::fs::read(file).with_context(|| format!("cannot read {shown}"))?;
            source(shown, bytes)
        })
        .collect()
}

fn source(name: String, bytes: Vec<u8>) -> anyhow::Result<Source> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source { name, text }),
        Err(error) => {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.split(|byte| *byte == b'\n').count();
            bail!("{name}: line {line}: the text is not UTF-8; save it as UTF-8");
        }
    }
}

/// One line each.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` has to give")]
pub(super) fn problems<E: std::fmt::Display>(all: Vec<E>) -> anyhow::Error {
    let lines: Vec<String> = all.iter().map(ToString::to_string).collect();
    match lines.as_slice() {
        [line] => anyhow!("{line}"),
        lines => anyhow!("{} problems\n  {}", lines.len(), lines.join("\n  ")),
    }
}

fn names(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}
