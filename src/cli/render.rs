//! `capt render`: the terraform directories, from manifests alone.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use terraform_driver::{
    render::{self, RenderError, Rendered},
    workspace::{Workspace, files::read_json},
};

use super::{
    DataDir,
    files::{Files, in_file, not_rendered},
    output::{self, ExitStatus},
    setup::default_region,
    work::{known, secrets},
};
use crate::{
    blueprint::{Blueprint, Place, Resolved, resolve},
    config::{AwsMode, Outer},
    local::{
        place,
        serve::{self, USUAL_PORT},
    },
    work::files,
};

/// What to render, and where to.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  capt render examples/quickstart.yaml -o out && ls out/default/demo-vpc

Needs neither AWS nor terraform. Values that come from a workspace that has not been applied are left out,
and the command says which.")]
pub(super) struct Args {
    #[command(flatten)]
    files: Files,
    /// The directory to write to.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    data: DataDir,
    /// For which AWS.
    #[arg(long, value_enum, default_value_t, env = "CAPT_AWS")]
    aws: AwsMode,
}

pub(super) fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let asked = args.files.read(outer)?;
    let data = args.data.path(outer);
    let place = Place { local_endpoint: endpoint(args.aws, &data)?, default_region: default_region(outer) };
    let known = known(&data)?;
    let secrets = secrets(&asked.blueprints);
    let mut said = Vec::new();
    for blueprint in &asked.blueprints {
        let resolved = resolve(blueprint, &known, &asked.manifests, &secrets, &place)?;
        for missing in &resolved.missing {
            output::say(&format!("{}: {missing}; it is left out", blueprint.key));
        }
        let dir = write(blueprint, resolved, &outer.absolute(&args.output))?;
        said.push(dir.display().to_string());
    }
    output::data(&(said.join("\n") + "\n"))?;
    Ok(ExitStatus::Done)
}

fn write(blueprint: &Blueprint, mut resolved: Resolved, out: &Path) -> anyhow::Result<PathBuf> {
    let refused = |error: RenderError| anyhow!(not_rendered(blueprint, &error));
    let mut rendered: Rendered = render::render(&resolved.request).map_err(refused)?;
    let mut fetched = Vec::new();
    if let Some(wanted) = rendered.fetch.clone() {
        if !wanted.is_local_path() {
            let said = format!(
                "forProvider.module: {} is fetched by terraform, which render does not run; use `capt plan`",
                wanted.address
            );
            return Err(anyhow!(in_file(blueprint, &said)));
        }
        let hint =
            || in_file(blueprint, "forProvider.module is not a directory that can be read; correct it");
        fetched = Workspace::read_tree(Path::new(&wanted.address)).with_context(hint)?;
        crate::work::show_fetched(&mut resolved.request, &fetched, &wanted.entrypoint);
        rendered = render::render(&resolved.request).map_err(refused)?;
    }
    let dir = out.join(&blueprint.key.namespace).join(&blueprint.key.name);
    Workspace::at(&dir).write(files(&rendered, &fetched)).with_context(|| {
        format!("cannot write to {}; name another directory with --output", out.display())
    })?;
    Ok(dir)
}

/// Where the local AWS is, or will be.
fn endpoint(aws: AwsMode, data: &Path) -> anyhow::Result<Option<String>> {
    match aws {
        AwsMode::Real => Ok(None),
        AwsMode::Local => {
            let server: Option<serve::Server> = read_json(&place::Place::of(data).server())?;
            let usual = || format!("http://127.0.0.1:{USUAL_PORT}");
            Ok(Some(server.map_or_else(usual, |server| server.endpoint)))
        }
    }
}
