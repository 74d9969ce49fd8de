//! Kubeconfigs as text. Pure.

use serde_json::{Value, json};

use crate::controllers::controlplane::look::Access;

/// The file beside a kubeconfig that holds the token, see [`with_token_file`].
pub(crate) const TOKEN_FILE: &str = "token-file";

/// One that needs nothing but itself: for Cluster API, which has no tools of AWS.
pub(crate) fn with_token(cluster: &str, access: &Access, token: &str) -> String {
    render(cluster, access, &json!({ "token": token }))
}

/// One that reads the token from a file beside it, and so sees a new one: for programs that mount the Secret.
pub(crate) fn with_token_file(cluster: &str, access: &Access) -> String {
    render(cluster, access, &json!({ "tokenFile": format!("./{TOKEN_FILE}") }))
}

/// One for people, who have the tools of AWS and their own credentials.
pub(crate) fn with_exec(cluster: &str, region: &str, access: &Access) -> String {
    let user = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": ["--region", region, "eks", "get-token", "--cluster-name", cluster, "--output", "json"],
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": false,
    }});
    render(cluster, access, &user)
}

fn render(cluster: &str, access: &Access, user: &Value) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {
            "server": server(&access.endpoint),
            "certificate-authority-data": access.authority,
        }}],
        "users": [{"name": cluster, "user": user}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        "current-context": cluster,
    });
    // Text, lists and maps always have a form in YAML; JSON is one of them.
    serde_saphyr::to_string(&config).unwrap_or_else(|_| config.to_string())
}

/// With a scheme and without a slash at the end.
fn server(endpoint: &str) -> String {
    let plain = endpoint.trim_end_matches('/');
    if plain.contains("://") { plain.to_owned() } else { format!("https://{plain}") }
}

#[cfg(test)]
mod tests {
    use kube::config::Kubeconfig;

    use super::*;

    fn access() -> Access {
        Access { endpoint: "https://127.0.0.1:40123/".to_owned(), authority: "Q0E=".to_owned() }
    }

    fn read(text: &str) -> Kubeconfig {
        Kubeconfig::from_yaml(text).unwrap()
    }

    #[test]
    fn the_one_for_programs_holds_everything_itself() {
        let config = read(&with_token("demo", &access(), "k8s-aws-v1.abc"));
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
        let config = read(&with_exec("demo", "eu-central-1", &access()));
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
        let config = read(&with_token_file("demo", &access()));
        assert_eq!(
            config.auth_infos[0].auth_info.clone().unwrap().token_file.as_deref(),
            Some("./token-file")
        );
    }

    #[test]
    fn an_endpoint_without_scheme_gets_one_and_no_name_breaks_the_yaml() {
        let odd = Access { endpoint: "host:443".to_owned(), authority: String::new() };
        let config = read(&with_token("1.30", &odd, "a: b # c"));
        assert_eq!(config.clusters[0].cluster.clone().unwrap().server.as_deref(), Some("https://host:443"));
        assert_eq!(config.current_context.as_deref(), Some("1.30"));
    }
}
