//! Bearer tokens for EKS cluster APIs, equivalent to `aws eks get-token`: a presigned `GetCallerIdentity` with the cluster's
//! name in a signed header. Makes no call itself; the cluster sends the request to STS.

use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_credential_types::{Credentials, provider::ProvideCredentials};
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign},
    sign::v4,
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use thiserror::Error;

use super::{CALL_TIMEOUT, SecretString, sdk_error};

/// EKS accepts a token for fifteen minutes, regardless of its expiry; one minute is reserved for clock skew.
const TOKEN_LIFETIME: SignedDuration = SignedDuration::from_mins(14);
/// Expiry in the presigned request; the EKS authenticator requires one minute.
const PRESIGN_EXPIRY: Duration = Duration::from_mins(1);

/// A bearer token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EksToken {
    /// Value of the `Authorization` header after `Bearer`.
    pub bearer: SecretString,
    /// Expiry; earlier than usual if the signing credentials expire earlier.
    pub expires_at: Timestamp,
}

/// Why there is no token.
#[derive(Debug, Error)]
pub enum EksTokenError {
    /// No signing credentials.
    #[error("no credentials to sign a token for EKS cluster {cluster}: {reason}")]
    Credentials {
        /// The cluster.
        cluster: String,
        /// Error of AWS or the SDK in one line.
        reason: String,
        /// Whether a retry may succeed.
        transient: bool,
    },
    /// The cluster name or the endpoint cannot be signed.
    #[error("cannot sign a token for EKS cluster {cluster} in {region}; check both names")]
    Unsignable {
        /// The cluster.
        cluster: String,
        /// The region.
        region: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl EksTokenError {
    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Credentials { transient: true, .. })
    }
}

/// Creates a token for a cluster with the credentials of `sdk`.
pub async fn create_eks_token(
    sdk: &SdkConfig,
    region: &str,
    cluster: &str,
    now: Timestamp,
) -> Result<EksToken, EksTokenError> {
    let credentials = load_credentials(sdk).await.map_err(|(said, transient)| {
        EksTokenError::Credentials { cluster: cluster.to_owned(), reason: said, transient }
    })?;
    let host = sdk.endpoint_url().map_or_else(|| format!("https://{}", sts_host(region)), str::to_owned);
    let url = presign_url(&host, region, cluster, &credentials, now).map_err(|source| {
        EksTokenError::Unsignable { cluster: cluster.to_owned(), region: region.to_owned(), source }
    })?;
    let end = credentials.expiry().and_then(|end| Timestamp::try_from(end).ok());
    let usual = now.saturating_add(TOKEN_LIFETIME).unwrap_or(now);
    Ok(EksToken {
        bearer: format!("k8s-aws-v1.{}", BASE64_URL_SAFE_NO_PAD.encode(url)).into(),
        expires_at: end.map_or(usual, |end| end.min(usual)),
    })
}

/// Loads the credentials; the error is its message and whether it is transient.
async fn load_credentials(sdk: &SdkConfig) -> Result<Credentials, (String, bool)> {
    let none = || ("no credentials provider is configured".to_owned(), false);
    let provider = sdk.credentials_provider().ok_or_else(none)?;
    match tokio::time::timeout(CALL_TIMEOUT, provider.provide_credentials()).await {
        Ok(Ok(credentials)) => Ok(credentials),
        Ok(Err(error)) => Err((sdk_error::root_cause(&error), sdk_error::is_transient_cause(&error))),
        Err(_late) => Err(("the credentials provider timed out".to_owned(), true)),
    }
}

/// Regional STS host; EKS rejects the global one in some regions.
fn sts_host(region: &str) -> String {
    let domain = match region.split('-').next().unwrap_or_default() {
        "cn" => "amazonaws.com.cn",
        _ => "amazonaws.com",
    };
    format!("sts.{region}.{domain}")
}

fn presign_url(
    host: &str,
    region: &str,
    cluster: &str,
    credentials: &Credentials,
    now: Timestamp,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let identity = credentials.clone().into();
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(PRESIGN_EXPIRY);
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("sts")
        .time(SystemTime::from(now))
        .settings(settings)
        .build()?;
    let url = format!("{}/?Action=GetCallerIdentity&Version=2011-06-15", host.trim_end_matches('/'));
    let headers = [("x-k8s-aws-id", cluster)].into_iter();
    let request = SignableRequest::new("GET", &url, headers, SignableBody::Bytes(&[]))?;
    let (instructions, _) = sign(request, &params.into())?.into_parts();
    let mut signed = http::Request::get(&url).body(())?;
    instructions.apply_to_request_http1x(&mut signed);
    Ok(signed.uri().to_string())
}

#[cfg(test)]
mod tests {
    use aws_config::{BehaviorVersion, Region};
    use aws_sdk_sts::config::SharedCredentialsProvider;

    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn sdk(end: Option<&str>) -> aws_config::SdkConfig {
        let end = end.map(|end| SystemTime::from(end.parse::<Timestamp>().unwrap()));
        let keys = Credentials::new("AKID", "hunter2", Some("session/token".to_owned()), end, "test");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-west-1"))
            .credentials_provider(SharedCredentialsProvider::new(keys))
            .build()
    }

    async fn made(sdk: &SdkConfig, region: &str) -> (EksToken, String) {
        let token = create_eks_token(sdk, region, "shop", NOW.parse().unwrap()).await.unwrap();
        let encoded = token.bearer.reveal().strip_prefix("k8s-aws-v1.").unwrap().to_owned();
        (token, String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(encoded).unwrap()).unwrap())
    }

    #[tokio::test]
    async fn a_token_is_a_presigned_call_of_the_regional_sts() {
        let (token, url) = made(&sdk(None), "eu-west-1").await;
        let (place, query) = url.split_once('?').unwrap();
        assert_eq!(place, "https://sts.eu-west-1.amazonaws.com/");
        let query: std::collections::BTreeMap<_, _> =
            query.split('&').map(|pair| pair.split_once('=').unwrap()).collect();
        let signature = query["X-Amz-Signature"];
        assert!(signature.len() == 64 && signature.bytes().all(|b| b.is_ascii_hexdigit()), "{signature}");
        let expected = [
            ("Action", "GetCallerIdentity"),
            ("Version", "2011-06-15"),
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", "AKID%2F20260102%2Feu-west-1%2Fsts%2Faws4_request"),
            ("X-Amz-Date", "20260102T030405Z"),
            ("X-Amz-Expires", "60"),
            ("X-Amz-Security-Token", "session%2Ftoken"),
            ("X-Amz-Signature", signature),
            ("X-Amz-SignedHeaders", "host%3Bx-k8s-aws-id"),
        ];
        assert_eq!(query, expected.into());
        assert!(!url.contains("hunter2"));
        assert_eq!(token.expires_at.to_string(), "2026-01-02T03:18:05Z");
    }

    #[tokio::test]
    async fn china_and_a_local_aws_have_hosts_of_their_own() {
        let (_, url) = made(&sdk(None), "cn-north-1").await;
        assert!(url.starts_with("https://sts.cn-north-1.amazonaws.com.cn/?"), "{url}");
        let local = sdk(None).to_builder().endpoint_url("http://127.0.0.1:4599/").build();
        let (_, url) = made(&local, "eu-west-1").await;
        assert!(url.starts_with("http://127.0.0.1:4599/?Action=GetCallerIdentity&"), "{url}");
    }

    #[tokio::test]
    async fn a_token_ends_with_the_credentials_that_it_was_made_with() {
        let (token, _) = made(&sdk(Some("2026-01-02T03:10:00Z")), "eu-west-1").await;
        assert_eq!(token.expires_at.to_string(), "2026-01-02T03:10:00Z");
    }

    #[tokio::test]
    async fn a_token_is_not_printed() {
        let (token, _) = made(&sdk(None), "eu-west-1").await;
        assert!(!format!("{token:?}").contains("k8s-aws-v1"), "{token:?}");
    }

    #[tokio::test]
    async fn what_cannot_be_signed_is_an_error_that_names_it() {
        let now = NOW.parse().unwrap();
        let error = create_eks_token(&sdk(None), "eu-west-1", "a\nb", now).await.unwrap_err();
        assert!(matches!(error, EksTokenError::Unsignable { .. }) && !error.is_transient(), "{error}");
        let none = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).build();
        let error = create_eks_token(&none, "eu-west-1", "shop", now).await.unwrap_err();
        assert!(error.to_string().contains("EKS cluster shop") && !error.is_transient(), "{error}");
    }
}
