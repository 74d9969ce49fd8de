//! A presigned `GetCallerIdentity` URL, taken apart and checked. Pure.

use aws_lc_rs::hmac;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::{Digest, Sha256};

use super::Sts;
use crate::hex::hex;

/// Tokens are good for this long after they were signed, whatever `X-Amz-Expires` says, as on EKS.
const LIFE: i64 = 900;
const LONGEST: usize = 4096;

/// What is wrong with a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("not a presigned URL")]
    Form,
    #[error("not a call of GetCallerIdentity at STS")]
    Target,
    #[error("a parameter that no such call has, or one that is missing or comes twice")]
    Parameter,
    #[error("the cluster's name or the host is not signed")]
    Unsigned,
    #[error("expired, or from the future")]
    Time,
    #[error("signed for another service or day")]
    Scope,
    #[error("an access key that nobody told us of")]
    Key,
    #[error("the signature is wrong")]
    Signature,
}

/// A checked URL.
#[derive(Debug, PartialEq, Eq)]
pub struct Presigned {
    /// Host that was signed.
    pub host: String,
    /// The query as it came.
    pub query: String,
}

const KNOWN: [&str; 9] = [
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

impl Presigned {
    /// Reads a token. If secrets are known, it must be signed with one of them; if none are, the signature is left to
    /// STS.
    pub fn read(token: &str, sts: &Sts, now: Timestamp) -> Result<Self, Refusal> {
        let encoded = token.strip_prefix("k8s-aws-v1.").ok_or(Refusal::Form)?;
        if encoded.len() > LONGEST {
            return Err(Refusal::Form);
        }
        let bytes =
            BASE64_URL_SAFE_NO_PAD.decode(encoded.trim_end_matches('=')).map_err(|_| Refusal::Form)?;
        let url = String::from_utf8(bytes).map_err(|_| Refusal::Form)?;
        let (host, query) = split(&url, sts)?;
        let query = Query::read(query)?;
        query.check(now)?;
        let presigned = Self { host: host.to_owned(), query: query.raw.to_owned() };
        query.verify(host, sts)?;
        Ok(presigned)
    }
}

fn split<'a>(url: &'a str, sts: &Sts) -> Result<(&'a str, &'a str), Refusal> {
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) || url.contains('#') {
        return Err(Refusal::Form);
    }
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).ok_or(Refusal::Form)?;
    let (place, query) = rest.split_once('?').ok_or(Refusal::Form)?;
    let host = place.strip_suffix('/').unwrap_or(place);
    let own = sts.endpoint.split("://").nth(1).unwrap_or_default().trim_end_matches('/');
    if host == own || is_sts(host) { Ok((host, query)) } else { Err(Refusal::Target) }
}

/// `sts.amazonaws.com`, `sts.<region>.amazonaws.com`, and the same in China.
fn is_sts(host: &str) -> bool {
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

struct Query<'a> {
    raw: &'a str,
    pairs: Vec<(String, String)>,
}

impl<'a> Query<'a> {
    fn read(raw: &'a str) -> Result<Self, Refusal> {
        let decode = |text: &str| percent_decode_str(text).decode_utf8().map(std::borrow::Cow::into_owned);
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or(Refusal::Parameter)?;
            let key = decode(key).map_err(|_| Refusal::Form)?;
            let value = decode(value).map_err(|_| Refusal::Form)?;
            let twice = pairs.iter().any(|(name, _)| name.eq_ignore_ascii_case(&key));
            // Spelled exactly: STS must see the same parameters as we do, and it may be stricter about letters.
            if twice || !KNOWN.contains(&key.as_str()) {
                return Err(Refusal::Parameter);
            }
            pairs.push((key, value));
        }
        Ok(Self { raw, pairs })
    }

    fn get(&self, name: &str) -> Result<&str, Refusal> {
        let found = self.pairs.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).ok_or(Refusal::Parameter)
    }

    fn check(&self, now: Timestamp) -> Result<(), Refusal> {
        if self.get("action")? != "GetCallerIdentity" {
            return Err(Refusal::Target);
        }
        let expires: i64 = self.get("x-amz-expires")?.parse().map_err(|_| Refusal::Parameter)?;
        if !(0..=LIFE).contains(&expires) {
            return Err(Refusal::Time);
        }
        let signed_at = DateTime::strptime("%Y%m%dT%H%M%SZ", self.get("x-amz-date")?)
            .ok()
            .and_then(|at| at.to_zoned(TimeZone::UTC).ok())
            .ok_or(Refusal::Parameter)?;
        let age = now.as_second().saturating_sub(signed_at.timestamp().as_second());
        if !(-300..=LIFE).contains(&age) {
            return Err(Refusal::Time);
        }
        let headers: Vec<&str> = self.get("x-amz-signedheaders")?.split(';').collect();
        let is_signed = |name: &str| headers.iter().any(|header| header.eq_ignore_ascii_case(name));
        if is_signed("x-k8s-aws-id") && is_signed("host") { Ok(()) } else { Err(Refusal::Unsigned) }
    }

    /// Access key, day and region that it was signed with; the service is STS.
    fn scope(&self) -> Result<(&str, &str, &str), Refusal> {
        let mut parts = self.get("x-amz-credential")?.rsplitn(5, '/');
        let (end, service, region, date, key) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next());
        let (Some(end), Some(service), Some(region), Some(date), Some(key)) =
            (end, service, region, date, key)
        else {
            return Err(Refusal::Parameter);
        };
        let day = self.get("x-amz-date")?.split('T').next().unwrap_or_default();
        if end == "aws4_request" && service == "sts" && date == day {
            Ok((key, date, region))
        } else {
            Err(Refusal::Scope)
        }
    }

    /// Checks the signature, unless no secrets are known at all.
    fn verify(&self, host: &str, sts: &Sts) -> Result<(), Refusal> {
        let (key, date, region) = self.scope()?;
        if sts.secrets.is_empty() {
            return Ok(());
        }
        let (_, secret) = sts.secrets.iter().find(|(known, _)| known == key).ok_or(Refusal::Key)?;
        let scope = format!("{date}/{region}/sts/aws4_request");
        let canonical = self.canonical(host, &sts.cluster)?;
        let digest = hex(&Sha256::digest(canonical.as_bytes()));
        let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{digest}", self.get("x-amz-date")?);
        let mut signing = format!("AWS4{secret}").into_bytes();
        for part in [date, region, "sts", "aws4_request"] {
            signing = mac(&signing, part.as_bytes());
        }
        let given = unhex(self.get("x-amz-signature")?).ok_or(Refusal::Signature)?;
        hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &signing), text.as_bytes(), &given)
            .map_err(|_| Refusal::Signature)
    }

    fn canonical(&self, host: &str, cluster: &str) -> Result<String, Refusal> {
        let mut pairs: Vec<String> = self
            .pairs
            .iter()
            .filter(|(key, _)| !key.eq_ignore_ascii_case("x-amz-signature"))
            .map(|(key, value)| format!("{}={}", escaped(key), escaped(value)))
            .collect();
        pairs.sort();
        let signed = self.get("x-amz-signedheaders")?;
        let mut headers = String::new();
        for header in signed.split(';') {
            let value = match header {
                "host" => host,
                "x-k8s-aws-id" => cluster,
                _ => return Err(Refusal::Signature),
            };
            headers.extend([header, ":", value, "\n"]);
        }
        let empty = hex(&Sha256::digest(b""));
        Ok(format!("GET\n/\n{}\n{headers}\n{signed}\n{empty}", pairs.join("&")))
    }
}

const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

pub fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    digits
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(high << 4 | low),
            _ => None,
        })
        .collect()
}
