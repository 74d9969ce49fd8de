//! `capt status`: the tree of what exists, once or for as long as somebody looks.

use anyhow::bail;
use terraform_driver::clock;
use tokio::signal::unix::{SignalKind, signal};

use super::{
    Format,
    access::Access,
    client::{kinds, list},
    output::{self, ExitStatus},
    show::{Show, follow},
    tree::{Node, forest, lines, plain},
    watch::Watched,
};
use crate::config::Outer;

/// Of what, and how.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt status                     everything, as a tree
  capt status demo -w             one cluster, while it changes
  capt status -o json | jq '.[].state'
  capt status --context prod      what another Kubernetes API holds")]
pub(super) struct Args {
    /// Only what has this name, and what belongs to it.
    name: Option<String>,
    #[command(flatten)]
    access: Access,
    /// Only this namespace.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Go on looking, until Ctrl-C.
    #[arg(short, long)]
    watch: bool,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) async fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let client = args.access.client(outer).await?;
    let namespace = args.namespace.as_deref();
    if args.watch {
        let watched = Watched::start(&client, namespace, args.access.flags(outer)).await?;
        return watch(args, &watched).await;
    }
    let objects = list(&client, &kinds(&client).await?, namespace).await?;
    let trees = named(forest(&objects, &args.access.flags(outer)), args.name.as_deref());
    if let (Some(name), true) = (&args.name, trees.is_empty()) {
        bail!("there is no {name} in {}; `capt status` lists what there is", within(namespace));
    }
    output::print(args.output, &trees, || plain(&lines(&trees, clock::now())))?;
    Ok(ExitStatus::Done)
}

fn within(namespace: Option<&str>) -> String {
    namespace.map_or_else(|| "any namespace".to_owned(), |name| format!("namespace {name}"))
}

/// The trees that begin with what has a name; all if none is asked for.
fn named(trees: Vec<Node>, name: Option<&str>) -> Vec<Node> {
    let Some(name) = name else { return trees };
    let mut found = Vec::new();
    for tree in trees {
        if tree.name == name {
            found.push(tree);
        } else {
            found.extend(named(tree.children, Some(name)));
        }
    }
    found
}

/// Leaving is how a look ends, so it is no failure.
async fn watch(args: &Args, watched: &Watched) -> anyhow::Result<ExitStatus> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut show = if args.output == Format::Text { Show::data() } else { Show::Nothing };
    let mut last = None;
    let looking = follow(
        watched,
        &mut show,
        |trees| named(trees, args.name.as_deref()),
        |trees| {
            if args.output != Format::Text && last.as_deref() != Some(trees) {
                last = Some(trees.to_vec());
                if let Err(error) = output::print(args.output, &trees, String::new) {
                    return Some(Err(error.into()));
                }
            }
            watched
                .blind_for(BLIND)
                .map(|why| Err(anyhow::anyhow!("the Kubernetes API has not answered for a while: {why}")))
        },
    );
    tokio::select! {
        ended = looking => ended,
        _ = terminate.recv() => Ok(ExitStatus::Done),
        _ = interrupt.recv() => Ok(ExitStatus::Done),
    }
}

/// How long nothing may be seen.
const BLIND: std::time::Duration = std::time::Duration::from_secs(30);

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
        let names =
            |name| named(forest(&objects, ""), name).iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(None), ["demo", "other"]);
        assert_eq!(names(Some("network")), ["network"]);
        assert_eq!(named(forest(&objects, ""), Some("demo"))[0].children.len(), 1);
        assert!(names(Some("absent")).is_empty());
    }
}
