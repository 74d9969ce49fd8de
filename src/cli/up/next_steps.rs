//! What to try when everything is ready.

use std::path::Path;

use super::Session;
use crate::{
    cli::{output, tree::Node},
    local::up::Server,
};

/// Says it.
pub(super) fn say(session: &Session, data: &Path, trees: &[Node]) {
    let log = session.up.place().log();
    let head = if trees.is_empty() { "it runs, and nothing is there yet" } else { "everything is ready" };
    let commands = commands(&session.server, data, &session.flags, trees);
    output::say(&format!("{head} (log: {}). Try next:{commands}", log.display()));
}

fn commands(server: &Server, data: &Path, flag: &str, trees: &[Node]) -> String {
    let mut lines = Vec::new();
    let mut kubectl = "kubectl".to_owned();
    if let Some(path) = &server.kubeconfig {
        lines.push((format!("export KUBECONFIG={}", path.display()), "for kubectl"));
    }
    if let Some(context) = &server.context {
        kubectl = format!("kubectl --context {context}");
    }
    if trees.is_empty() {
        lines.push((format!("capt up -f examples/quickstart.yaml{flag}"), "a first cluster"));
    } else {
        lines.push((
            format!("{kubectl} get cluster,captcluster,captcontrolplane,wtapply -A"),
            "what there is",
        ));
        lines.push((
            format!("ls {}/workspaces", data.display()),
            "the terraform directories, to look at and to plan in",
        ));
    }
    for cluster in trees.iter().filter(|root| root.kind == "Cluster") {
        let namespace = match cluster.namespace.as_deref() {
            None | Some("default") => String::new(),
            Some(namespace) => format!(" -n {namespace}"),
        };
        let name = &cluster.name;
        let own = format!(
            "capt kubeconfig {name}{namespace}{flag} > {name}.kubeconfig && kubectl --kubeconfig {name}.kubeconfig get namespaces"
        );
        lines.push((own, "the cluster itself"));
    }
    lines.push((format!("capt status -w{flag}"), "watch it"));
    lines.push((format!("capt stop{flag}"), "end the background process and keep everything"));
    lines.push((format!("capt down{flag}"), "delete everything, and prove that nothing is left"));
    lines.into_iter().fold(String::new(), |text, (command, why)| text + "\n  " + &command + "\n      " + why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_data_directory_is_named_in_every_command() {
        let server = Server {
            process: terraform_driver::exec::ProcessId { pid: 1, started: 1 },
            kubeconfig: Some("/there/here/kube/kubeconfig".into()),
            context: None,
            started: terraform_driver::clock::now(),
            aws: crate::config::AwsMode::Local,
            notes: Vec::new(),
        };
        let said = commands(&server, Path::new("/there/here"), " --data here", &[]);
        for command in [
            "export KUBECONFIG=/there/here/kube/kubeconfig",
            "capt stop --data here",
            "capt down --data here",
            "capt status -w --data here",
        ] {
            assert!(said.contains(command), "{said}");
        }
    }
}
