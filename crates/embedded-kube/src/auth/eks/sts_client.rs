//! The one call that this crate makes outward: `GetCallerIdentity` at the configured endpoint.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::{Sts, presigned::Presigned};

const DEADLINE: Duration = Duration::from_secs(5);
const LARGEST: usize = 64 * 1024;

/// STS was not reached, or said no.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("the endpoint is not of the form http://host:port")]
    Endpoint,
    #[error("no answer in time")]
    Late,
    #[error("STS answered {0}")]
    Refused(u16),
    #[error("the answer names nobody")]
    Answer,
    #[error("STS was not reached")]
    Io(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl CallError {
    fn io(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Io(why.into())
    }
}

/// ARN of whoever signed the URL, as STS says.
pub async fn caller(sts: &Sts, presigned: &Presigned) -> Result<String, CallError> {
    tokio::time::timeout(DEADLINE, ask(sts, presigned)).await.map_err(|_| CallError::Late)?
}

async fn ask(sts: &Sts, presigned: &Presigned) -> Result<String, CallError> {
    let place = sts.endpoint.strip_prefix("http://").ok_or(CallError::Endpoint)?.trim_end_matches('/');
    let place = if place.rsplit(']').next().is_some_and(|end| end.contains(':')) {
        place.to_owned()
    } else {
        format!("{place}:80")
    };
    let stream = TcpStream::connect(place).await.map_err(CallError::io)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(CallError::io)?;
    let request = http::Request::get(format!("/?{}", presigned.query))
        .header("host", &presigned.host)
        .header("x-k8s-aws-id", &sts.cluster)
        .header("accept", "application/json")
        .body(Empty::<Bytes>::new())
        .map_err(CallError::io)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(CallError::io)?;
        let code = response.status().as_u16();
        let body = Limited::new(response.into_body(), LARGEST).collect().await.map_err(CallError::io)?;
        if code == 200 {
            arn(&body.to_bytes()).ok_or(CallError::Answer)
        } else {
            Err(CallError::Refused(code))
        }
    };
    tokio::pin!(answer, connection);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        // The connection may end first, with the answer already read from it.
        ended = &mut connection => {
            ended.map_err(CallError::io)?;
            answer.await
        }
    }
}

/// STS answers in JSON if asked; a local one may only know XML.
fn arn(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let found = match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) => value
            .pointer("/GetCallerIdentityResponse/GetCallerIdentityResult/Arn")
            .or_else(|| value.pointer("/Arn"))?
            .as_str()?
            .to_owned(),
        Err(_) => text.split_once("<Arn>")?.1.split_once("</Arn>")?.0.trim().to_owned(),
    };
    found.starts_with("arn:").then_some(found)
}
