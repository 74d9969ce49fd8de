//! The only outbound call of this crate: `GetCallerIdentity` at the configured STS endpoint.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::{StsConfig, presigned::PresignedUrl};

const CALL_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// STS could not be reached or rejected the request.
#[derive(Debug, thiserror::Error)]
pub enum StsError {
    #[error("the STS endpoint is not of the form http://host:port")]
    Endpoint,
    #[error("STS request timed out")]
    Timeout,
    #[error("STS returned status {0}")]
    Rejected(u16),
    #[error("no ARN in the STS response")]
    InvalidResponse,
    #[error("failed to reach STS")]
    Io(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StsError {
    fn io(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Io(why.into())
    }
}

/// The ARN of the signer, as returned by STS.
pub async fn get_caller_identity(sts: &StsConfig, presigned: &PresignedUrl) -> Result<String, StsError> {
    tokio::time::timeout(CALL_TIMEOUT, send_request(sts, presigned)).await.map_err(|_| StsError::Timeout)?
}

async fn send_request(sts: &StsConfig, presigned: &PresignedUrl) -> Result<String, StsError> {
    let place = sts.endpoint.strip_prefix("http://").ok_or(StsError::Endpoint)?.trim_end_matches('/');
    let place = if place.rsplit(']').next().is_some_and(|end| end.contains(':')) {
        place.to_owned()
    } else {
        format!("{place}:80")
    };
    let stream = TcpStream::connect(place).await.map_err(StsError::io)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(StsError::io)?;
    let request = http::Request::get(format!("/?{}", presigned.query))
        .header("host", &presigned.host)
        .header("x-k8s-aws-id", &sts.cluster)
        .header("accept", "application/json")
        .body(Empty::<Bytes>::new())
        .map_err(StsError::io)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(StsError::io)?;
        let code = response.status().as_u16();
        let body =
            Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await.map_err(StsError::io)?;
        if code == 200 {
            parse_arn(&body.to_bytes()).ok_or(StsError::InvalidResponse)
        } else {
            Err(StsError::Rejected(code))
        }
    };
    tokio::pin!(answer, connection);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        // The connection may end first, after the response has been read.
        ended = &mut connection => {
            ended.map_err(StsError::io)?;
            answer.await
        }
    }
}

/// STS responds in JSON if requested; a local implementation may only support XML.
fn parse_arn(body: &[u8]) -> Option<String> {
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
