//! Bearer tokens for the APIs of EKS clusters, made in process as `aws eks get-token` makes them: a presigned
//! `GetCallerIdentity` with the cluster's name in a signed header. Nothing is sent; the cluster sends it to STS.

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

use super::{CALL, Secret, fault};

/// A token is good for fifteen minutes, whatever it says itself. One is ours, for clocks that differ.
const LIFE: SignedDuration = SignedDuration::from_mins(14);
/// What the presigned request says itself. The authenticator of EKS asks for a minute.
const EXPIRES: Duration = Duration::from_mins(1);

/// A bearer token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What goes into the `Authorization` header, after `Bearer`.
    pub text: Secret,
    /// It must not be used after this. Sooner than usual if the credentials that it was made with end sooner.
    pub expires_at: Timestamp,
}

/// Why there is no token.
#[derive(Debug, Error)]
pub enum TokenError {
    /// No credentials to sign with.
    #[error("there are no credentials to make a token for the EKS cluster {cluster} with: {said}")]
    Credentials {
        /// The cluster.
        cluster: String,
        /// What AWS or its SDK says, in one line.
        said: String,
        /// Whether there may be some later.
        transient: bool,
    },
    /// A name or an address that cannot be signed.
    #[error("cannot sign a token for the EKS cluster {cluster} in {region}; check both names")]
    Unsignable {
        /// The cluster.
        cluster: String,
        /// The region.
        region: String,
        /// What is wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl TokenError {
    /// Whether the same may go well later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Credentials { transient: true, .. })
    }
}

/// Makes a token for a cluster, with the credentials of these settings.
pub async fn eks_token(
    sdk: &SdkConfig,
    region: &str,
    cluster: &str,
    now: Timestamp,
) -> Result<Token, TokenError> {
    let credentials = credentials(sdk).await.map_err(|(said, transient)| TokenError::Credentials {
        cluster: cluster.to_owned(),
        said,
        transient,
    })?;
    let host = sdk.endpoint_url().map_or_else(|| format!("https://{}", sts_host(region)), str::to_owned);
    let url = presigned(&host, region, cluster, &credentials, now).map_err(|source| {
        TokenError::Unsignable { cluster: cluster.to_owned(), region: region.to_owned(), source }
    })?;
    let end = credentials.expiry().and_then(|end| Timestamp::try_from(end).ok());
    let usual = now.saturating_add(LIFE).unwrap_or(now);
    Ok(Token {
        text: format!("k8s-aws-v1.{}", BASE64_URL_SAFE_NO_PAD.encode(url)).into(),
        expires_at: end.map_or(usual, |end| end.min(usual)),
    })
}

/// The credentials, or why there are none and whether that may pass.
async fn credentials(sdk: &SdkConfig) -> Result<Credentials, (String, bool)> {
    let none = || ("no source of credentials is set".to_owned(), false);
    let provider = sdk.credentials_provider().ok_or_else(none)?;
    match tokio::time::timeout(CALL, provider.provide_credentials()).await {
        Ok(Ok(credentials)) => Ok(credentials),
        Ok(Err(error)) => Err((fault::innermost(&error), fault::may_pass(&error))),
        Err(_late) => Err(("their source does not answer".to_owned(), true)),
    }
}

/// The regional host: EKS takes no other from some regions.
fn sts_host(region: &str) -> String {
    let domain = match region.split('-').next().unwrap_or_default() {
        "cn" => "amazonaws.com.cn",
        _ => "amazonaws.com",
    };
    format!("sts.{region}.{domain}")
}

fn presigned(
    host: &str,
    region: &str,
    cluster: &str,
    credentials: &Credentials,
    now: Timestamp,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let identity = credentials.clone().into();
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(EXPIRES);
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

    async fn made(sdk: &SdkConfig, region: &str) -> (Token, String) {
        let token = eks_token(sdk, region, "shop", NOW.parse().unwrap()).await.unwrap();
        let encoded = token.text.reveal().strip_prefix("k8s-aws-v1.").unwrap().to_owned();
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
        let error = eks_token(&sdk(None), "eu-west-1", "a\nb", now).await.unwrap_err();
        assert!(matches!(error, TokenError::Unsignable { .. }) && !error.is_transient(), "{error}");
        let none = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).build();
        let error = eks_token(&none, "eu-west-1", "shop", now).await.unwrap_err();
        assert!(error.to_string().contains("EKS cluster shop") && !error.is_transient(), "{error}");
    }
}
