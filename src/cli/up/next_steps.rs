//! Suggested next commands after `capt up`.

use std::path::Path;

use super::UpSession;
use crate::{
    cli::{output, tree::TreeNode},
    local::up_daemon::UpRecord,
};

/// Prints the suggestions.
pub(super) fn print_next_steps(session: &UpSession, data: &Path, trees: &[TreeNode]) {
    let log = session.up.files().log_file();
    let head = if trees.is_empty() { "running; there are no objects yet" } else { "everything is ready" };
    let commands = next_commands(&session.server, data, &session.flags, trees);
    output::print_message(&format!("{head} (log: {}). Next steps:{commands}", log.display()));
}

fn next_commands(server: &UpRecord, data: &Path, flag: &str, trees: &[TreeNode]) -> String {
    let mut lines = Vec::new();
    let mut kubectl = "kubectl".to_owned();
    if let Some(path) = &server.kubeconfig {
        lines.push((format!("export KUBECONFIG={}", path.display()), "for kubectl"));
    }
    if let Some(context) = &server.context {
        kubectl = format!("kubectl --context {context}");
    }
    if trees.is_empty() {
        lines.push((format!("capt up -f examples/quickstart.yaml{flag}"), "create a first cluster"));
    } else {
        lines.push((
            format!("{kubectl} get cluster,captcluster,captcontrolplane,wtapply -A"),
            "list the objects",
        ));
        lines.push((format!("ls {}/workspaces", data.display()), "inspect the terraform directories"));
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
        lines.push((own, "access the cluster"));
    }
    lines.push((format!("capt status -w{flag}"), "watch the object tree"));
    lines.push((format!("capt stop{flag}"), "stop the background process and keep everything"));
    lines.push((format!("capt down{flag}"), "delete everything and verify that nothing is left"));
    lines.into_iter().fold(String::new(), |text, (command, why)| text + "\n  " + &command + "\n      " + why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_data_directory_is_named_in_every_command() {
        let server = UpRecord {
            process: terraform_driver::exec::ProcessId { pid: 1, started: 1 },
            kubeconfig: Some("/there/here/kube/kubeconfig".into()),
            context: None,
            started: terraform_driver::clock::now(),
            aws: crate::aws_mode::AwsMode::Local,
            notes: Vec::new(),
        };
        let said = next_commands(&server, Path::new("/there/here"), " --data here", &[]);
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
