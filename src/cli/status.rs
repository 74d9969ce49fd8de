//! `capt status`: prints the object tree, or watches it.

use anyhow::bail;
use capt_engine::process_env::ProcessEnv;
use terraform_driver::clock;
use tokio::signal::unix::{SignalKind, signal};

use super::{
    OutputFormat,
    kube_api::{discover_kinds, list_objects},
    kube_target::KubeTarget,
    live_view::{LiveView, follow_trees},
    object_watch::ObjectWatch,
    output::{self, ExitStatus},
    tree::{TreeNode, build_forest, render_text, tree_lines},
};

/// Arguments of `capt status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt status                     all objects
  capt status demo -w             watch one cluster
  capt status -o json | jq '.[].state'
  capt status --context prod      another Kubernetes API")]
pub(super) struct Args {
    /// Only the objects with this name and their children.
    name: Option<String>,
    #[command(flatten)]
    access: KubeTarget,
    /// Only this namespace.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Watch until Ctrl-C.
    #[arg(short, long)]
    watch: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

pub(super) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let client = args.access.client(process_env).await?;
    let namespace = args.namespace.as_deref();
    if args.watch {
        let watched = ObjectWatch::start(&client, namespace, args.access.command_flags(process_env)).await?;
        return watch_trees(args, &watched).await;
    }
    let objects = list_objects(&client, &discover_kinds(&client).await?, namespace).await?;
    let trees =
        find_named(build_forest(&objects, &args.access.command_flags(process_env)), args.name.as_deref());
    if let (Some(name), true) = (&args.name, trees.is_empty()) {
        bail!("{name} not found in {}; `capt status` lists all objects", namespace_label(namespace));
    }
    output::print_formatted(args.output, &trees, || render_text(&tree_lines(&trees, clock::now())))?;
    Ok(ExitStatus::Done)
}

fn namespace_label(namespace: Option<&str>) -> String {
    namespace.map_or_else(|| "any namespace".to_owned(), |name| format!("namespace {name}"))
}

/// The subtrees whose root has this name; all trees if no name is given.
fn find_named(trees: Vec<TreeNode>, name: Option<&str>) -> Vec<TreeNode> {
    let Some(name) = name else { return trees };
    let mut found = Vec::new();
    for tree in trees {
        if tree.name == name {
            found.push(tree);
        } else {
            found.extend(find_named(tree.children, Some(name)));
        }
    }
    found
}

/// Ctrl-C is the normal way to stop watching, so it is no failure.
async fn watch_trees(args: &Args, watched: &ObjectWatch) -> anyhow::Result<ExitStatus> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut show = if args.output == OutputFormat::Text { LiveView::on_stdout() } else { LiveView::Hidden };
    let mut last = None;
    let looking = follow_trees(
        watched,
        &mut show,
        |trees| find_named(trees, args.name.as_deref()),
        |trees| {
            if args.output != OutputFormat::Text && last.as_deref() != Some(trees) {
                last = Some(trees.to_vec());
                if let Err(error) = output::print_formatted(args.output, &trees, String::new) {
                    return Some(Err(error.into()));
                }
            }
            watched
                .failing_for(MAX_WATCH_OUTAGE)
                .map(|why| Err(anyhow::anyhow!("the Kubernetes API has not responded for 30 s: {why}")))
        },
    );
    tokio::select! {
        ended = looking => ended,
        _ = terminate.recv() => Ok(ExitStatus::Done),
        _ = interrupt.recv() => Ok(ExitStatus::Done),
    }
}

/// How long the watch may fail before the command gives up.
const MAX_WATCH_OUTAGE: std::time::Duration = std::time::Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use kube::api::DynamicObject;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_finds_what_has_it_wherever_it_stands() {
        let object = |kind: &str, name: &str, owner: Option<&str>| -> DynamicObject {
            let owners =
                owner.map(|name| json!([{"apiVersion": "v1", "kind": "Cluster", "name": name, "uid": "1"}]));
            let metadata =
                json!({"name": name, "namespace": "a", "ownerReferences": owners.unwrap_or(json!([]))});
            serde_json::from_value(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})).unwrap()
        };
        let objects = [
            object("Cluster", "demo", None),
            object("CAPTCluster", "network", Some("demo")),
            object("Cluster", "other", None),
        ];
        let names = |name| {
            find_named(build_forest(&objects, ""), name).iter().map(|it| it.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(None), ["demo", "other"]);
        assert_eq!(names(Some("network")), ["network"]);
        assert_eq!(find_named(build_forest(&objects, ""), Some("demo"))[0].children.len(), 1);
        assert!(names(Some("absent")).is_empty());
    }
}
