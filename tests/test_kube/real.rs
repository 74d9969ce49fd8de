//! etcd, kube-apiserver and kube-controller-manager, for one test.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use conformance::{Kubelet, RealKube, config};
use embedded_kube::fault_injection::RequestRecord;
use http::header::USER_AGENT;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use tempfile::TempDir;

use super::{audit::AuditLog, user_token};

pub(crate) struct RealTestKube {
    kube: RealKube,
    audit: AuditLog,
    /// The administrator's way.
    config: Config,
    _files: TempDir,
}

impl RealTestKube {
    pub(super) async fn start(users: &[(&str, &str)]) -> Self {
        let bin = binaries_dir();
        let files = tempfile::tempdir().unwrap();
        let audit = AuditLog::new(files.path());
        let mut flags = audit.flags();
        if !users.is_empty() {
            flags.push(format!("--token-auth-file={}", write_token_file(files.path(), users)));
        }
        let kube = RealKube::start_with(&bin, &flags).await.unwrap();
        let read = Kubeconfig::read_from(&kube.kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
        Self { kube, audit, config, _files: files }
    }

    pub(super) fn client(&self, agent: &str) -> Client {
        client_with_agent(self.config.clone(), agent)
    }

    pub(super) async fn client_as(&self, account: &str, agent: &str) -> Client {
        let parts: Vec<&str> = account.split(':').collect();
        let ["system", "serviceaccount", namespace, name] = parts[..] else {
            panic!("{account} is no service account")
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client("token"), namespace);
        let wanted = TokenRequest {
            spec: TokenRequestSpec { expiration_seconds: Some(7200), ..TokenRequestSpec::default() },
            ..TokenRequest::default()
        };
        let made = accounts.create_token_request(name, &PostParams::default(), &wanted).await.unwrap();
        let mut config = self.config.clone();
        let token = made.status.unwrap().token;
        config.auth_info = serde_json::from_value::<AuthInfo>(json!({ "token": token })).unwrap();
        // As the operator does.
        config.default_retry = false;
        client_with_agent(config, agent)
    }

    /// A kubelet for a node, at the port that it had before if it had one.
    pub(crate) async fn start_kubelet(&self, node: &str, before: Option<SocketAddr>) -> Kubelet {
        self.kube.start_kubelet(&binaries_dir(), node, before).await.unwrap()
    }

    pub(super) fn requests(&self) -> Vec<RequestRecord> {
        self.audit.requests()
    }

    pub(super) fn kubeconfig(&self) -> String {
        fs::read_to_string(&self.kube.kubeconfig).unwrap()
    }
}

fn binaries_dir() -> PathBuf {
    config::Settings::read()
        .real_bin
        .expect("there is no real control plane: `scripts/real-kube build` makes one")
}

fn client_with_agent(mut config: Config, agent: &str) -> Client {
    config.headers.push((USER_AGENT, agent.parse().unwrap()));
    Client::try_from(config).unwrap()
}

/// Who has which token, in a file for the API server.
fn write_token_file(dir: &Path, users: &[(&str, &str)]) -> String {
    let path = dir.join("tokens.csv");
    let lines = users.iter().map(|(name, user)| format!("{},{user},{name}\n", user_token(name)));
    fs::write(&path, lines.collect::<String>()).unwrap();
    path.display().to_string()
}
