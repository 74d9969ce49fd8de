//! `capt render`: writes the terraform directories from manifests.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use capt_engine::{daemon_files::DaemonFiles, pipeline::workspace_files, process_env::ProcessEnv};
use capt_model::workspaces::{DesiredWorkspace, ProviderDefaults, ResolvedWorkspace, resolve_references};
use terraform_driver::{
    render::{self, RenderError, RenderedWorkspace},
    source::{SourceLimits, read_source},
    workspace::{WorkspaceDir, files::read_json},
};

use super::{
    DataDirArg,
    manifest_files::{ManifestArgs, describe_render_error, with_template_file},
    output::{self, ExitStatus},
    run_setup::default_region,
    run_workspaces::{connection_secret_owners, load_known_outputs},
};
use crate::{
    aws_mode::AwsMode,
    local::aws_record::{DEFAULT_PORT, LocalAwsRecord},
};

/// Arguments of `capt render`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  capt render examples/quickstart.yaml -o out && ls out/default/demo-vpc

Needs neither AWS nor terraform. Outputs of workspaces that have not been applied are omitted and reported.")]
pub(super) struct Args {
    #[command(flatten)]
    files: ManifestArgs,
    /// The directory to write to.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    data: DataDirArg,
    /// Target AWS.
    #[arg(long, value_enum, default_value_t, env = "CAPT_AWS")]
    aws: AwsMode,
}

pub(super) fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let asked = args.files.load(process_env)?;
    let data = args.data.path(process_env);
    let place = ProviderDefaults {
        local_endpoint: local_endpoint(args.aws, &data)?,
        default_region: default_region(process_env),
    };
    let known = load_known_outputs(&data)?;
    let secrets = connection_secret_owners(&asked.blueprints);
    let mut said = Vec::new();
    for blueprint in &asked.blueprints {
        let resolved = resolve_references(blueprint, &known, &asked.manifests, &secrets, &place)?;
        for missing in &resolved.missing {
            output::print_message(&format!("{}: {missing}; omitted", blueprint.key));
        }
        let dir = write_workspace(blueprint, resolved, &process_env.absolute_path(&args.output))?;
        said.push(dir.display().to_string());
    }
    output::print_data(&(said.join("\n") + "\n"))?;
    Ok(ExitStatus::Done)
}

fn write_workspace(
    blueprint: &DesiredWorkspace,
    mut resolved: ResolvedWorkspace,
    out: &Path,
) -> anyhow::Result<PathBuf> {
    let refused = |error: RenderError| anyhow!(describe_render_error(blueprint, &error));
    let mut rendered: RenderedWorkspace = render::render(&resolved.request).map_err(refused)?;
    let mut fetched = Vec::new();
    if let Some(wanted) = rendered.fetch.clone() {
        let Some(directory) = wanted.source.directory() else {
            let said = format!(
                "forProvider.module: {} has to be fetched by terraform, which render does not run; use `capt plan`",
                wanted.source
            );
            return Err(anyhow!(with_template_file(blueprint, &said)));
        };
        let hint =
            || with_template_file(blueprint, "forProvider.module is not a readable directory; correct it");
        let limits = SourceLimits::default();
        let tree = read_source(&wanted.source, directory, &wanted.entrypoint, limits).with_context(hint)?;
        for path in &tree.ignored {
            output::print_message(&format!("{}: ignored {path} of the module", blueprint.key));
        }
        fetched = tree.files;
        capt_engine::pipeline::set_fetched_root(&mut resolved.request, &fetched, &wanted.entrypoint);
        rendered = render::render(&resolved.request).map_err(refused)?;
    }
    let dir = out.join(&blueprint.key.namespace).join(&blueprint.key.name);
    WorkspaceDir::at(&dir).sync_files(workspace_files(&rendered, &fetched)).with_context(|| {
        format!("cannot write to {}; choose another directory with --output", out.display())
    })?;
    Ok(dir)
}

/// The endpoint of the local AWS, or its default if it does not run yet.
fn local_endpoint(aws: AwsMode, data: &Path) -> anyhow::Result<Option<String>> {
    match aws {
        AwsMode::Real => Ok(None),
        AwsMode::Local => {
            let server: Option<LocalAwsRecord> = read_json(&DaemonFiles::of_local_aws(data).server_file())?;
            let usual = || format!("http://127.0.0.1:{DEFAULT_PORT}");
            Ok(Some(server.map_or_else(usual, |server| server.endpoint)))
        }
    }
}
