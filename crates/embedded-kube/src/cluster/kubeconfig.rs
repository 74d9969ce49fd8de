//! The administrator's kubeconfig.

use base64::{Engine, prelude::BASE64_STANDARD};

/// A kubeconfig with one cluster, one user and one context, all of the same name.
pub fn render_kubeconfig(name: &str, server: &str, certificate: &str, token: &str) -> String {
    let authority = BASE64_STANDARD.encode(certificate);
    let name = serde_json::Value::from(name);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {name}
  user:
    token: {token}
contexts:
- name: {name}
  context:
    cluster: {name}
    user: {name}
current-context: {name}
preferences: {{}}
"
    )
}
