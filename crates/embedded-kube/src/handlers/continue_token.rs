//! Continue tokens of paginated lists.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use crate::status_error::{ApiResult, StatusError};

const VERSION: &str = "meta.k8s.io/v1";

/// Position and snapshot of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContinueToken {
    #[serde(rename = "v", default)]
    version: String,
    /// Revision of the snapshot; a negative value means the newest state.
    #[serde(rename = "rv", default)]
    pub revision: i64,
    /// The last returned key, relative to the list's prefix, and a zero byte: the next possible key.
    #[serde(rename = "start", default)]
    start: String,
}

impl ContinueToken {
    pub fn new(key: &str, prefix: &str, revision: i64) -> Self {
        let rest = key.strip_prefix(prefix).unwrap_or(key);
        Self { version: VERSION.to_owned(), revision, start: format!("{rest}\0") }
    }

    /// The key to continue after.
    pub fn key(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.start.trim_end_matches('\0'))
    }

    pub fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    pub fn decode(text: &str) -> ApiResult<Self> {
        let refuse = |why: String| {
            StatusError::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| refuse(illegal_base64(&error)))?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|error| refuse(error.to_string()))?;
        if token.version != VERSION {
            return Err(refuse(format!("server does not recognize this encoded version {}", token.version)));
        }
        if token.revision == 0 {
            return Err(refuse(
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)".to_owned(),
            ));
        }
        if token.start.is_empty() {
            return Err(refuse("encoded start key empty (version meta.k8s.io/v1)".to_owned()));
        }
        Ok(token)
    }
}

fn illegal_base64(error: &base64::DecodeError) -> String {
    match error {
        base64::DecodeError::InvalidByte(place, _) | base64::DecodeError::InvalidLastSymbol(place, _) => {
            format!("illegal base64 data at input byte {place}")
        }
        base64::DecodeError::InvalidLength(length) => format!("illegal base64 data at input byte {length}"),
        base64::DecodeError::InvalidPadding => "illegal base64 data".to_owned(),
    }
}
