//! Manifest files of plan, apply, destroy and render.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, bail};
use capt_engine::process_env::ProcessEnv;
use capt_model::{
    manifest::{self, ManifestSource, ValidatedManifests},
    model::{Limits, template::TemplateSource},
    workspaces::{
        AppliedOutputs, DesiredWorkspace, ProviderDefaults, WorkspaceSource, desired_workspaces,
        resolve_references,
    },
};
use clap::Args;
use terraform_driver::{
    environment::validate_variable,
    render::{RenderError, render},
    source::LocalModules,
};

use super::{output, run_workspaces::connection_secret_owners};

/// Manifest arguments.
#[derive(Debug, Clone, Args)]
pub(super) struct ManifestArgs {
    /// Manifests: YAML or JSON files, directories of them, or `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    paths: Vec<PathBuf>,
    /// Maximum selectors per Fargate profile (account quota).
    #[arg(long, value_name = "N", default_value_t = Limits::default().selectors_per_profile, hide_short_help = true)]
    limit_selectors_per_profile: usize,
    /// Maximum labels per selector (account quota).
    #[arg(long, value_name = "N", default_value_t = Limits::default().labels_per_selector, hide_short_help = true)]
    limit_labels_per_selector: usize,
    /// Maximum Fargate profiles per cluster (account quota).
    #[arg(long, value_name = "N", default_value_t = Limits::default().profiles_per_cluster, hide_short_help = true)]
    limit_profiles_per_cluster: usize,
}

/// The workspaces that the manifests require.
pub(super) struct DesiredWorkspaces {
    pub(super) manifests: ValidatedManifests,
    pub(super) blueprints: Vec<DesiredWorkspace>,
}

impl ManifestArgs {
    const fn limits(&self) -> Limits {
        Limits {
            selectors_per_profile: self.limit_selectors_per_profile,
            labels_per_selector: self.limit_labels_per_selector,
            profiles_per_cluster: self.limit_profiles_per_cluster,
        }
    }

    /// Reads and validates the manifests; the error lists every problem.
    pub(super) fn load(&self, process_env: &ProcessEnv) -> anyhow::Result<DesiredWorkspaces> {
        let mut sources = Vec::new();
        for path in &self.paths {
            sources.extend(read_sources(path, process_env)?);
        }
        let loaded = manifest::load(&sources).map_err(join_problems)?;
        let mut manifests = manifest::validate(&loaded, &self.limits()).map_err(join_problems)?;
        manifests.local_modules = Some(LocalModules::of_the_command_line());
        for warning in &manifests.warnings {
            output::print_warning(&warning.to_string());
        }
        let blueprints = desired_workspaces(&manifests).map_err(join_problems)?;
        if blueprints.is_empty() {
            bail!(
                "{} contains no object to apply; add a CAPTCluster, a CAPTControlPlane or a WorkspaceTemplateApply",
                join_paths(&self.paths)
            );
        }
        let asked = DesiredWorkspaces { manifests, blueprints };
        asked.validate_templates()?;
        Ok(asked)
    }
}

impl DesiredWorkspaces {
    /// Renders every user template and discards the result, so that template errors surface before any run starts. Outputs
    /// of other workspaces are not required for this.
    fn validate_templates(&self) -> anyhow::Result<()> {
        let (known, secrets) = (AppliedOutputs::default(), connection_secret_owners(&self.blueprints));
        let place = ProviderDefaults { local_endpoint: None, default_region: String::new() };
        let mut wrong = Vec::new();
        for blueprint in
            self.blueprints.iter().filter(|it| matches!(it.source, WorkspaceSource::Template { .. }))
        {
            match resolve_references(blueprint, &known, &self.manifests, &secrets, &place) {
                Err(error) => wrong.push(with_template_file(blueprint, &error.to_string())),
                Ok(resolved) => {
                    let args = resolved.args.validate().err().map(|error| error.to_string());
                    let env =
                        resolved.env.iter().filter_map(|(name, value)| validate_variable(name, value).err());
                    let refused = args.into_iter().chain(env.map(|error| error.to_string()));
                    wrong.extend(
                        refused.map(|said| with_template_file(blueprint, &format!("forProvider.{said}"))),
                    );
                    wrong.extend(
                        render(&resolved.request).err().map(|it| describe_render_error(blueprint, &it)),
                    );
                }
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(join_problems(wrong)) }
    }
}

/// A render error with the file and the field it comes from.
pub(super) fn describe_render_error(blueprint: &DesiredWorkspace, error: &RenderError) -> String {
    let is_inline = matches!(&blueprint.source, WorkspaceSource::Template { template, .. }
        if matches!(template.source, TemplateSource::Inline { .. }));
    let said = match error {
        RenderError::Parse { file, line, reason } if is_inline && file.starts_with("main.tf") => {
            format!("forProvider.module, line {line}: {reason}; correct the configuration there")
        }
        RenderError::Parse { .. } => format!("{error}; correct the configuration there"),
        RenderError::Undeclared { .. } | RenderError::NotLiteral { .. } => format!("forProvider.{error}"),
        _ => error.to_string(),
    };
    with_template_file(blueprint, &said)
}

/// Prefixes a message about a workspace with the file of its template, if it has one.
pub(super) fn with_template_file(blueprint: &DesiredWorkspace, said: &str) -> String {
    match &blueprint.source {
        WorkspaceSource::Template { file, .. } => {
            format!("{file}: the template of {}: {said}", blueprint.owner)
        }
        WorkspaceSource::Module { .. } => format!("{}: {said}", blueprint.owner),
    }
}

/// The contents of a file, of each manifest in a directory, or of standard input.
pub(super) fn read_sources(path: &Path, process_env: &ProcessEnv) -> anyhow::Result<Vec<ManifestSource>> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
        return Ok(vec![decode_source("standard input".to_owned(), bytes)?]);
    }
    let real = process_env.absolute_path(path);
    let hint = || format!("cannot read {}; check that the file exists", path.display());
    if !real.is_dir() {
        let bytes = std::fs::read(&real).with_context(hint)?;
        return Ok(vec![decode_source(path.display().to_string(), bytes)?]);
    }
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&real).with_context(hint)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| {
        file.extension().is_some_and(|kind| ["yaml", "yml", "json"].iter().any(|it| kind == *it))
    });
    files.sort();
    if files.is_empty() {
        bail!(
            "{} contains no .yaml, .yml or .json file; pass a file, or a directory with manifests",
            path.display()
        );
    }
    files
        .iter()
        .map(|file| {
            let shown = path.join(file.file_name().unwrap_or_default()).display().to_string();
            let bytes = std::fs::read(file).with_context(|| format!("cannot read {shown}"))?;
            decode_source(shown, bytes)
        })
        .collect()
}

fn decode_source(name: String, bytes: Vec<u8>) -> anyhow::Result<ManifestSource> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(ManifestSource { name, text }),
        Err(error) => {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.split(|byte| *byte == b'\n').count();
            bail!("{name}: line {line}: not valid UTF-8; save the file as UTF-8");
        }
    }
}

/// Joins problems into one error, one line each.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` has to give")]
pub(super) fn join_problems<E: std::fmt::Display>(all: Vec<E>) -> anyhow::Error {
    let lines: Vec<String> = all.iter().map(ToString::to_string).collect();
    match lines.as_slice() {
        [line] => anyhow!("{line}"),
        lines => anyhow!("{} problems\n  {}", lines.len(), lines.join("\n  ")),
    }
}

fn join_paths(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}
