//! Calls to the admin path of a local AWS.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, body::Bytes};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;

/// Why the local AWS did not answer.
#[derive(Debug, Error)]
pub enum AdminError {
    /// No answer at all.
    #[error("the local AWS at {endpoint} does not answer")]
    Silent {
        /// Where it should be.
        endpoint: String,
        /// What happened.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An answer that says no.
    #[error("the local AWS answered {status} to {path}: {body}")]
    Refused {
        /// The status code.
        status: u16,
        /// What was asked.
        path: String,
        /// What it said.
        body: String,
    },
    /// An answer of another shape.
    #[error("the local AWS gave an answer to {path} that makes no sense")]
    Garbled {
        /// What was asked.
        path: String,
        /// Where it stops making sense.
        #[source]
        source: serde_json::Error,
    },
}

/// How a local AWS is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Health {
    /// Changes whenever its memory is lost.
    pub instance: String,
    /// Seconds since the last call.
    #[serde(default)]
    pub idle_seconds: f64,
}

/// One thing that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// `eks`, `ec2`, `iam` …
    pub service: String,
    /// `cluster`, `vpc` …
    #[serde(rename = "type")]
    pub kind: String,
    /// Where it is.
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

/// Everything that exists.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Inventory {
    /// Sorted by service, type, region and id.
    pub items: Vec<Item>,
}

/// A local AWS that listens at an endpoint.
#[derive(Debug, Clone)]
pub struct Admin {
    endpoint: String,
}

impl Admin {
    /// The one at `endpoint`.
    pub fn at(endpoint: impl Into<String>) -> Self {
        Self { endpoint: endpoint.into() }
    }

    /// How it is.
    pub async fn health(&self) -> Result<Health, AdminError> {
        self.call(Method::GET, "/_capt/health", Duration::from_secs(5)).await
    }

    /// What exists.
    pub async fn inventory(&self) -> Result<Inventory, AdminError> {
        self.call(Method::GET, "/_capt/inventory", Duration::from_mins(1)).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        patience: Duration,
    ) -> Result<T, AdminError> {
        let silent = |source| AdminError::Silent { endpoint: self.endpoint.clone(), source };
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
