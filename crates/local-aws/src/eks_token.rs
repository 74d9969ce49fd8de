//! The one signature that is checked: that of an EKS token, a presigned `GetCallerIdentity` with the cluster's name as
//! the signed header `x-k8s-aws-id`. A cluster passes it on to learn who is behind it, and a token for one cluster must
//! not open another.

use hmac::{Hmac, KeyInit as _, Mac};
use hyper::HeaderMap;
use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};
use sha2::{Digest as _, Sha256};

use crate::{
    keys::Keys,
    sigv4::Scope,
    text::{encode, pairs, query_value},
    wire::Failure,
};

/// How long STS takes a presigned request, whatever its `X-Amz-Expires` says.
const LIFE: SignedDuration = SignedDuration::from_mins(15);
/// How far clocks may differ.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

pub(crate) const CLUSTER_HEADER: &str = "x-k8s-aws-id";

/// Whether this is an EKS token on its way.
pub(crate) fn is_one(scope: &Scope, query: &str) -> bool {
    scope.service == "sts"
        && query_value(query, "X-Amz-Signature").is_some()
        && signed_headers(query).iter().any(|name| name == CLUSTER_HEADER)
}

fn signed_headers(query: &str) -> Vec<String> {
    let names = query_value(query, "X-Amz-SignedHeaders").unwrap_or_default();
    names.split(';').map(str::to_ascii_lowercase).collect()
}

/// Refuses a token in the words of STS.
pub(crate) fn check(
    (method, path, query): (&str, &str, &str),
    headers: &HeaderMap,
    keys: &Keys,
    now: Timestamp,
) -> Result<(), Failure> {
    let mismatch = || {
        refuse(
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided. Check your AWS Secret \
             Access Key and signing method. Consult the service documentation for details.",
        )
    };
    let value = |name: &str| query_value(query, name).ok_or_else(mismatch);
    let (date, credential) = (value("X-Amz-Date")?, value("X-Amz-Credential")?);
    is_fresh(&date, now)?;
    // From the right: an access key may hold a slash.
    let (cut, _) = credential.rmatch_indices('/').nth(3).ok_or_else(mismatch)?;
    let (key, scope) = credential.split_at_checked(cut).ok_or_else(mismatch)?;
    let scope = scope.trim_start_matches('/');
    let secret = keys.secret(key).ok_or_else(|| {
        refuse("InvalidClientTokenId", "The security token included in the request is invalid.")
    })?;
    let canonical = canonical(method, path, query, headers).ok_or_else(mismatch)?;
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let mut signing = format!("AWS4{secret}").into_bytes();
    for part in scope.split('/') {
        signing = mac(&signing, part)?.finalize().into_bytes().to_vec();
    }
    let signature = unhex(&value("X-Amz-Signature")?).ok_or_else(mismatch)?;
    mac(&signing, &text)?.verify_slice(&signature).map_err(|_| mismatch())
}

fn refuse(code: &str, message: &str) -> Failure {
    Failure { code: code.to_owned(), message: message.to_owned(), status: 403, retry_after: None }
}

fn is_fresh(date: &str, now: Timestamp) -> Result<(), Failure> {
    let signed = DateTime::strptime("%Y%m%dT%H%M%SZ", date)
        .and_then(|date| date.to_zoned(TimeZone::UTC))
        .map(|zoned| zoned.timestamp())
        .map_err(|_| {
            refuse("IncompleteSignature", "Date must be in ISO-8601 'basic format', such as 20260101T000000Z")
        })?;
    let age = signed.duration_until(now);
    if age > LIFE {
        return Err(refuse("SignatureDoesNotMatch", &format!("Signature expired: {date} is too old")));
    }
    if age < -SKEW {
        return Err(refuse("SignatureDoesNotMatch", &format!("Signature not yet current: {date}")));
    }
    Ok(())
}

/// The request as its signer saw it; nothing if a signed header is missing.
fn canonical(method: &str, path: &str, query: &str, headers: &HeaderMap) -> Option<String> {
    let mut parts: Vec<String> = pairs(query)
        .filter(|(key, _)| key != "X-Amz-Signature")
        .map(|(key, value)| format!("{}={}", encode(&key), encode(&value)))
        .collect();
    parts.sort();
    let names = signed_headers(query);
    let line = |name: &String| Some(format!("{name}:{}\n", headers.get(name)?.to_str().ok()?.trim()));
    let lines: String = names.iter().map(line).collect::<Option<_>>()?;
    let body = hex(&Sha256::digest(b""));
    Some(format!("{method}\n{path}\n{}\n{lines}\n{}\n{body}", parts.join("&"), names.join(";")))
}

fn mac(key: &[u8], text: &str) -> Result<Hmac<Sha256>, Failure> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|_| {
        refuse("InvalidClientTokenId", "The security token included in the request is invalid.")
    })?;
    mac.update(text.as_bytes());
    Ok(mac)
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits?;
    let bytes = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    });
    bytes.collect()
}

#[cfg(test)]
mod tests;
