//! Parses and verifies a presigned `GetCallerIdentity` URL. Pure.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use capt_util::sigv4::{SignedRequest, empty_body_digest, uri_escape};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use percent_encoding::percent_decode_str;

use super::StsConfig;

/// Lifetime of a token after it was signed, regardless of `X-Amz-Expires`, as in EKS.
const TOKEN_LIFETIME_SECONDS: i64 = 900;
const MAX_TOKEN_BYTES: usize = 4096;

/// Why a token is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("not a presigned URL")]
    Malformed,
    #[error("not an STS GetCallerIdentity URL")]
    WrongTarget,
    #[error("an unexpected, missing or duplicate query parameter")]
    InvalidParameter,
    #[error("the cluster name or host header is not signed")]
    UnsignedHeader,
    #[error("expired or not yet valid")]
    Expired,
    #[error("credential scope is for another service or date")]
    InvalidScope,
    #[error("unknown access key")]
    UnknownKey,
    #[error("signature does not match")]
    InvalidSignature,
}

/// A verified URL.
#[derive(Debug, PartialEq, Eq)]
pub struct PresignedUrl {
    /// The signed host.
    pub host: String,
    /// The raw query.
    pub query: String,
}

const ALLOWED_PARAMETERS: [&str; 9] = [
    "Action",
    "Version",
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-Security-Token",
    "X-Amz-Signature",
    "X-Amz-SignedHeaders",
];

impl PresignedUrl {
    /// Parses a token. If secret keys are configured, it must be signed with one of them; otherwise only STS checks the
    /// signature.
    pub fn parse(token: &str, sts: &StsConfig, now: Timestamp) -> Result<Self, TokenError> {
        let encoded = token.strip_prefix("k8s-aws-v1.").ok_or(TokenError::Malformed)?;
        if encoded.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Malformed);
        }
        let bytes = BASE64_URL_SAFE_NO_PAD
            .decode(encoded.trim_end_matches('='))
            .map_err(|_| TokenError::Malformed)?;
        let url = String::from_utf8(bytes).map_err(|_| TokenError::Malformed)?;
        let (host, query) = split_url(&url, sts)?;
        let query = SignedQuery::parse(query)?;
        query.check_parameters(now)?;
        let presigned = Self { host: host.to_owned(), query: query.raw.to_owned() };
        query.verify_signature(host, sts)?;
        Ok(presigned)
    }
}

fn split_url<'a>(url: &'a str, sts: &StsConfig) -> Result<(&'a str, &'a str), TokenError> {
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) || url.contains('#') {
        return Err(TokenError::Malformed);
    }
    let rest =
        url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).ok_or(TokenError::Malformed)?;
    let (place, query) = rest.split_once('?').ok_or(TokenError::Malformed)?;
    let host = place.strip_suffix('/').unwrap_or(place);
    let own = sts.endpoint.split("://").nth(1).unwrap_or_default().trim_end_matches('/');
    if host == own || is_sts_host(host) { Ok((host, query)) } else { Err(TokenError::WrongTarget) }
}

/// `sts.amazonaws.com`, `sts.<region>.amazonaws.com`, and the same in China.
fn is_sts_host(host: &str) -> bool {
    let host = host.strip_suffix(".cn").unwrap_or(host);
    let Some(front) = host.strip_suffix(".amazonaws.com") else { return false };
    match front.split_once('.') {
        None => front == "sts",
        Some((service, region)) => {
            service == "sts"
                && !region.is_empty()
                && region.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        }
    }
}

struct SignedQuery<'a> {
    raw: &'a str,
    pairs: Vec<(String, String)>,
}

impl<'a> SignedQuery<'a> {
    fn parse(raw: &'a str) -> Result<Self, TokenError> {
        let decode = |text: &str| percent_decode_str(text).decode_utf8().map(std::borrow::Cow::into_owned);
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or(TokenError::InvalidParameter)?;
            let key = decode(key).map_err(|_| TokenError::Malformed)?;
            let value = decode(value).map_err(|_| TokenError::Malformed)?;
            let twice = pairs.iter().any(|(name, _)| name.eq_ignore_ascii_case(&key));
            // Exact match: STS must see the same parameters, and may be stricter about case.
            if twice || !ALLOWED_PARAMETERS.contains(&key.as_str()) {
                return Err(TokenError::InvalidParameter);
            }
            pairs.push((key, value));
        }
        Ok(Self { raw, pairs })
    }

    fn get(&self, name: &str) -> Result<&str, TokenError> {
        let found = self.pairs.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).ok_or(TokenError::InvalidParameter)
    }

    fn check_parameters(&self, now: Timestamp) -> Result<(), TokenError> {
        if self.get("action")? != "GetCallerIdentity" {
            return Err(TokenError::WrongTarget);
        }
        let expires: i64 = self.get("x-amz-expires")?.parse().map_err(|_| TokenError::InvalidParameter)?;
        if !(0..=TOKEN_LIFETIME_SECONDS).contains(&expires) {
            return Err(TokenError::Expired);
        }
        let signed_at = DateTime::strptime("%Y%m%dT%H%M%SZ", self.get("x-amz-date")?)
            .ok()
            .and_then(|at| at.to_zoned(TimeZone::UTC).ok())
            .ok_or(TokenError::InvalidParameter)?;
        let age = now.as_second().saturating_sub(signed_at.timestamp().as_second());
        if !(-300..=TOKEN_LIFETIME_SECONDS).contains(&age) {
            return Err(TokenError::Expired);
        }
        let headers: Vec<&str> = self.get("x-amz-signedheaders")?.split(';').collect();
        let is_signed = |name: &str| headers.iter().any(|header| header.eq_ignore_ascii_case(name));
        if is_signed("x-k8s-aws-id") && is_signed("host") { Ok(()) } else { Err(TokenError::UnsignedHeader) }
    }

    /// Access key, date and region of the credential scope; the service is STS.
    fn scope(&self) -> Result<(&str, &str, &str), TokenError> {
        let mut parts = self.get("x-amz-credential")?.rsplitn(5, '/');
        let (end, service, region, date, key) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next());
        let (Some(end), Some(service), Some(region), Some(date), Some(key)) =
            (end, service, region, date, key)
        else {
            return Err(TokenError::InvalidParameter);
        };
        let day = self.get("x-amz-date")?.split('T').next().unwrap_or_default();
        if end == "aws4_request" && service == "sts" && date == day {
            Ok((key, date, region))
        } else {
            Err(TokenError::InvalidScope)
        }
    }

    /// Verifies the signature, unless no secret keys are configured.
    fn verify_signature(&self, host: &str, sts: &StsConfig) -> Result<(), TokenError> {
        let (key, date, region) = self.scope()?;
        if sts.secrets.is_empty() {
            return Ok(());
        }
        let (_, secret) = sts.secrets.iter().find(|(known, _)| known == key).ok_or(TokenError::UnknownKey)?;
        let scope = format!("{date}/{region}/sts/aws4_request");
        let canonical = self.canonical_request(host, &sts.cluster)?;
        let request = SignedRequest {
            date: self.get("x-amz-date")?,
            scope: &scope,
            canonical: &canonical,
            signature: self.get("x-amz-signature")?,
        };
        if request.is_signed_with(secret) { Ok(()) } else { Err(TokenError::InvalidSignature) }
    }

    fn canonical_request(&self, host: &str, cluster: &str) -> Result<String, TokenError> {
        let mut pairs: Vec<String> = self
            .pairs
            .iter()
            .filter(|(key, _)| !key.eq_ignore_ascii_case("x-amz-signature"))
            .map(|(key, value)| format!("{}={}", uri_escape(key), uri_escape(value)))
            .collect();
        pairs.sort();
        let signed = self.get("x-amz-signedheaders")?;
        let mut headers = String::new();
        for header in signed.split(';') {
            let value = match header {
                "host" => host,
                "x-k8s-aws-id" => cluster,
                _ => return Err(TokenError::InvalidSignature),
            };
            headers.extend([header, ":", value, "\n"]);
        }
        let empty = empty_body_digest();
        Ok(format!("GET\n/\n{}\n{headers}\n{signed}\n{empty}", pairs.join("&")))
    }
}
