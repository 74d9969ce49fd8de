//! Renders kubeconfig YAML. Pure.

use serde_json::{Value, json};

use crate::controlplane::eks_poll::ApiServerAccess;

/// File name of the token in the directory of the kubeconfig, see [`render_with_token_file`].
pub(crate) const TOKEN_FILE: &str = "token-file";

/// A self-contained kubeconfig with the token, for Cluster API, which has no AWS CLI.
pub(crate) fn render_with_token(cluster: &str, access: &ApiServerAccess, token: &str) -> String {
    render_kubeconfig(cluster, access, &json!({ "token": token }))
}

/// A kubeconfig that reads the token from a file, for programs that mount the Secret and must follow its rotation.
pub(crate) fn render_with_token_file(cluster: &str, access: &ApiServerAccess) -> String {
    render_kubeconfig(cluster, access, &json!({ "tokenFile": format!("./{TOKEN_FILE}") }))
}

/// A kubeconfig for users, who have the AWS CLI and their own credentials.
pub(crate) fn render_with_exec(cluster: &str, region: &str, access: &ApiServerAccess) -> String {
    let user = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": ["--region", region, "eks", "get-token", "--cluster-name", cluster, "--output", "json"],
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": false,
    }});
    render_kubeconfig(cluster, access, &user)
}

fn render_kubeconfig(cluster: &str, access: &ApiServerAccess, user: &Value) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {
            "server": server_url(&access.endpoint),
            "certificate-authority-data": access.ca_data,
        }}],
        "users": [{"name": cluster, "user": user}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        "current-context": cluster,
    });
    // Serialization of strings, lists and maps does not fail; JSON is valid YAML in any case.
    serde_saphyr::to_string(&config).unwrap_or_else(|_| config.to_string())
}

/// The endpoint with a scheme and without a trailing slash.
fn server_url(endpoint: &str) -> String {
    let plain = endpoint.trim_end_matches('/');
    if plain.contains("://") { plain.to_owned() } else { format!("https://{plain}") }
}

#[cfg(test)]
mod tests {
    use kube::config::Kubeconfig;

    use super::*;

    fn access() -> ApiServerAccess {
        ApiServerAccess { endpoint: "https://127.0.0.1:40123/".to_owned(), ca_data: "Q0E=".to_owned() }
    }

    fn read(text: &str) -> Kubeconfig {
        Kubeconfig::from_yaml(text).unwrap()
    }

    #[test]
    fn the_one_for_programs_holds_everything_itself() {
        let config = read(&render_with_token("demo", &access(), "k8s-aws-v1.abc"));
        let cluster = config.clusters[0].cluster.clone().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:40123"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("Q0E="));
        assert!(cluster.insecure_skip_tls_verify.is_none());
        let user = serde_json::to_value(config.auth_infos[0].auth_info.clone().unwrap()).unwrap();
        assert_eq!(user["token"], "k8s-aws-v1.abc");
        assert_eq!(config.current_context.as_deref(), Some("demo"));
    }

    #[test]
    fn the_one_for_people_asks_the_tools_of_aws() {
        let config = read(&render_with_exec("demo", "eu-central-1", &access()));
        let exec = config.auth_infos[0].auth_info.clone().unwrap().exec.unwrap();
        assert_eq!(exec.command.as_deref(), Some("aws"));
        let args = exec.args.unwrap().join(" ");
        assert!(
            args.contains("get-token --cluster-name demo") && args.contains("--region eu-central-1"),
            "{args}"
        );
    }

    #[test]
    fn the_one_beside_a_token_file_names_it() {
        let config = read(&render_with_token_file("demo", &access()));
        assert_eq!(
            config.auth_infos[0].auth_info.clone().unwrap().token_file.as_deref(),
            Some("./token-file")
        );
    }

    #[test]
    fn an_endpoint_without_scheme_gets_one_and_no_name_breaks_the_yaml() {
        let odd = ApiServerAccess { endpoint: "host:443".to_owned(), ca_data: String::new() };
        let config = read(&render_with_token("1.30", &odd, "a: b # c"));
        assert_eq!(config.clusters[0].cluster.clone().unwrap().server.as_deref(), Some("https://host:443"));
        assert_eq!(config.current_context.as_deref(), Some("1.30"));
    }
}
