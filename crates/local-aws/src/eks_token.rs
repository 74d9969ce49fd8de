//! Verifies EKS tokens: presigned `GetCallerIdentity` requests with the cluster name in the signed header
//! `x-k8s-aws-id`. This is the only signature that is checked: clusters authenticate callers with these tokens, and a
//! token for one cluster must not be accepted by another.

use capt_util::sigv4::{SignedRequest, empty_body_digest};
use hyper::HeaderMap;
use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

use crate::{
    access_keys::AccessKeys,
    protocol::AwsError,
    query_string::{percent_encode, query_pairs, query_value},
    sigv4::CredentialScope,
};

/// How long STS accepts a presigned request, regardless of `X-Amz-Expires`.
const MAX_AGE: SignedDuration = SignedDuration::from_mins(15);
/// Accepted clock skew.
const MAX_CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

pub(crate) const CLUSTER_HEADER: &str = "x-k8s-aws-id";

/// Whether the request is an EKS token.
pub(crate) fn is_eks_token(scope: &CredentialScope, query: &str) -> bool {
    scope.service == "sts"
        && query_value(query, "X-Amz-Signature").is_some()
        && signed_headers(query).iter().any(|name| name == CLUSTER_HEADER)
}

fn signed_headers(query: &str) -> Vec<String> {
    let names = query_value(query, "X-Amz-SignedHeaders").unwrap_or_default();
    names.split(';').map(str::to_ascii_lowercase).collect()
}

/// Verifies a token; errors use the texts of STS.
pub(crate) fn verify(
    (method, path, query): (&str, &str, &str),
    headers: &HeaderMap,
    keys: &AccessKeys,
    now: Timestamp,
) -> Result<(), AwsError> {
    let mismatch = || {
        rejection(
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided. Check your AWS Secret \
             Access Key and signing method. Consult the service documentation for details.",
        )
    };
    let value = |name: &str| query_value(query, name).ok_or_else(mismatch);
    let (date, credential) = (value("X-Amz-Date")?, value("X-Amz-Credential")?);
    verify_date(&date, now)?;
    // From the right: an access key may contain a slash.
    let (cut, _) = credential.rmatch_indices('/').nth(3).ok_or_else(mismatch)?;
    let (key, scope) = credential.split_at_checked(cut).ok_or_else(mismatch)?;
    let scope = scope.trim_start_matches('/');
    let secret = keys.secret(key).ok_or_else(|| {
        rejection("InvalidClientTokenId", "The security token included in the request is invalid.")
    })?;
    let canonical = canonical_request(method, path, query, headers).ok_or_else(mismatch)?;
    let signature = value("X-Amz-Signature")?;
    let request = SignedRequest { date: &date, scope, canonical: &canonical, signature: &signature };
    if request.is_signed_with(&secret) { Ok(()) } else { Err(mismatch()) }
}

fn rejection(code: &str, message: &str) -> AwsError {
    AwsError { code: code.to_owned(), message: message.to_owned(), status: 403, retry_after: None }
}

fn verify_date(date: &str, now: Timestamp) -> Result<(), AwsError> {
    let signed = DateTime::strptime("%Y%m%dT%H%M%SZ", date)
        .and_then(|date| date.to_zoned(TimeZone::UTC))
        .map(|zoned| zoned.timestamp())
        .map_err(|_| {
            rejection(
                "IncompleteSignature",
                "Date must be in ISO-8601 'basic format', such as 20260101T000000Z",
            )
        })?;
    let age = signed.duration_until(now);
    if age > MAX_AGE {
        return Err(rejection("SignatureDoesNotMatch", &format!("Signature expired: {date} is too old")));
    }
    if age < -MAX_CLOCK_SKEW {
        return Err(rejection("SignatureDoesNotMatch", &format!("Signature not yet current: {date}")));
    }
    Ok(())
}

/// The canonical request; none if a signed header is missing.
fn canonical_request(method: &str, path: &str, query: &str, headers: &HeaderMap) -> Option<String> {
    let mut parts: Vec<String> = query_pairs(query)
        .filter(|(key, _)| key != "X-Amz-Signature")
        .map(|(key, value)| format!("{}={}", percent_encode(&key), percent_encode(&value)))
        .collect();
    parts.sort();
    let names = signed_headers(query);
    let line = |name: &String| Some(format!("{name}:{}\n", headers.get(name)?.to_str().ok()?.trim()));
    let lines: String = names.iter().map(line).collect::<Option<_>>()?;
    let body = empty_body_digest();
    Some(format!("{method}\n{path}\n{}\n{lines}\n{}\n{body}", parts.join("&"), names.join(";")))
}

#[cfg(test)]
mod tests;
