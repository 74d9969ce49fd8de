//! Client of the admin API of a local AWS.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, body::Bytes};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;

/// Why an admin call failed.
#[derive(Debug, Error)]
pub enum AdminError {
    /// No response.
    #[error("the local AWS at {endpoint} does not respond")]
    Unreachable {
        /// Its endpoint.
        endpoint: String,
        /// The transport error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An error status.
    #[error("the local AWS returned {status} for {path}: {body}")]
    Refused {
        /// The status code.
        status: u16,
        /// Path of the request.
        path: String,
        /// Body of the response.
        body: String,
    },
    /// A response that does not decode.
    #[error("cannot decode the response of the local AWS to {path}")]
    Garbled {
        /// Path of the request.
        path: String,
        /// The decode error.
        #[source]
        source: serde_json::Error,
    },
}

/// Health of a local AWS.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LocalAwsHealth {
    /// Id of the instance; changes whenever its resources are lost.
    pub instance: String,
    /// Seconds since the last request.
    #[serde(default)]
    pub idle_seconds: f64,
}

/// An existing resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryItem {
    /// `eks`, `ec2`, `iam` …
    pub service: String,
    /// `cluster`, `vpc` …
    #[serde(rename = "type")]
    pub kind: String,
    /// Its region, if it has one.
    #[serde(default)]
    pub region: Option<String>,
    /// Its id.
    pub id: String,
    /// Its name, if it has one.
    #[serde(default)]
    pub name: Option<String>,
    /// Its status, if it has one.
    #[serde(default)]
    pub status: Option<String>,
}

/// All existing resources.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Inventory {
    /// Sorted by service, type, region and id.
    pub items: Vec<InventoryItem>,
}

/// Admin client of a local AWS.
#[derive(Debug, Clone)]
pub struct AdminClient {
    endpoint: String,
}

impl AdminClient {
    /// A client for `endpoint`.
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self { endpoint: endpoint.into() }
    }

    /// Fetches the health.
    pub async fn health(&self) -> Result<LocalAwsHealth, AdminError> {
        self.call(Method::GET, "/_capt/health", Duration::from_secs(5)).await
    }

    /// Fetches the inventory.
    pub async fn inventory(&self) -> Result<Inventory, AdminError> {
        self.call(Method::GET, "/_capt/inventory", Duration::from_mins(1)).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        patience: Duration,
    ) -> Result<T, AdminError> {
        let silent = |source| AdminError::Unreachable { endpoint: self.endpoint.clone(), source };
        let answer = tokio::time::timeout(patience, self.send(method, path))
            .await
            .map_err(|elapsed| silent(elapsed.into()))?
            .map_err(silent)?;
        let (status, body) = answer;
        if !(200..300).contains(&status) {
            let body = String::from_utf8_lossy(&body).into_owned();
            return Err(AdminError::Refused { status, path: path.to_owned(), body });
        }
        serde_json::from_slice(&body).map_err(|source| AdminError::Garbled { path: path.to_owned(), source })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
    ) -> Result<(u16, Bytes), Box<dyn std::error::Error + Send + Sync>> {
        let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
        let request =
            Request::builder().method(method).uri(format!("{}{path}", self.endpoint)).body(Full::default())?;
        let response = client.request(request).await?;
        let status = response.status().as_u16();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}
