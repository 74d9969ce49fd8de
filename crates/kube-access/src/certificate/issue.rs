//! Issues certificates and decides when to renew them. Pure except for key generation.

use std::{sync::Arc, time::Duration};

use jiff::{Timestamp, ToSpan as _, civil::Date, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use serde::{Deserialize, Serialize};
use terraform_driver::output::Sensitive;

use super::{CertificateError, store::CertificateFiles};

const CERTIFICATE_DAYS: i64 = 90;
const RENEWED_DAYS_BEFORE: i64 = 30;
const AUTHORITY_DAYS: i64 = 3650;
/// Longer than the lifetime of a certificate, so that none outlives its CA.
const AUTHORITY_RENEWED_DAYS_BEFORE: i64 = 180;
const AUTHORITY_NAME: &str = "capt authority";

const AUTHORITY: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const PREVIOUS_AUTHORITY: &str = "ca-previous.crt";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const TERMS_FILE: &str = "terms.json";

/// A serving certificate with its CA, as PEM.
#[derive(Clone, Debug)]
pub(super) struct CertificateBundle {
    authority: String,
    authority_key: Sensitive<String>,
    /// The previous CA, still trusted because replicas do not switch at the same time.
    previous: Option<String>,
    pub(super) certificate: String,
    pub(super) key: Sensitive<String>,
    terms: CertificateTerms,
}

/// Names and expiry of the certificates, stored to avoid parsing them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CertificateTerms {
    names: Vec<String>,
    certificate_until: Timestamp,
    authority_until: Timestamp,
}

/// Result of a renewal check.
#[derive(Debug)]
pub(super) enum Renewal {
    /// Not due.
    Unchanged(CertificateBundle),
    /// A new bundle to store.
    Renewed(CertificateBundle),
}

impl CertificateBundle {
    /// Reads the stored files; `None` if one is missing or invalid.
    pub(super) fn from_files(kept: &CertificateFiles) -> Option<Self> {
        let text = |name: &str| kept.get(name).map(str::to_owned);
        Some(Self {
            authority: text(AUTHORITY)?,
            authority_key: Sensitive::new(text(AUTHORITY_KEY)?),
            previous: text(PREVIOUS_AUTHORITY),
            certificate: text(CERTIFICATE)?,
            key: Sensitive::new(text(KEY)?),
            terms: serde_json::from_str(kept.get(TERMS_FILE)?).ok()?,
        })
    }

    /// The files to store.
    pub(super) fn to_files(&self) -> CertificateFiles {
        let Self { authority, authority_key, previous, certificate, key, terms } = self;
        let mut kept = CertificateFiles::default();
        kept.insert(AUTHORITY, authority);
        kept.insert(AUTHORITY_KEY, authority_key.expose());
        kept.insert(CERTIFICATE, certificate);
        kept.insert(KEY, key.expose());
        kept.insert(TERMS_FILE, &serde_json::to_string(terms).unwrap_or_default());
        if let Some(previous) = previous {
            kept.insert(PREVIOUS_AUTHORITY, previous);
        }
        kept
    }

    /// Whether the CA verifies the certificate and its key can sign another one. Verified at a time shortly before expiry,
    /// because an expired certificate is renewed, not discarded with its CA.
    pub(super) fn is_consistent(&self) -> bool {
        KeyPair::from_pem(self.authority_key.expose()).is_ok() && self.verify().unwrap_or(false)
    }

    fn verify(&self) -> Option<bool> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes()).ok()?).ok()?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).ok()?;
        let name = ServerName::try_from(self.terms.names.first()?.as_str()).ok()?;
        let end = u64::try_from(self.terms.certificate_until.as_second()).ok()?.checked_sub(3600)?;
        let end = UnixTime::since_unix_epoch(Duration::from_secs(end));
        Some(verifier.verify_server_cert(&certificate, &[], &name, &[], end).is_ok())
    }

    /// The CA bundle to trust.
    pub(super) fn ca_bundle(&self) -> String {
        format!("{}{}", self.authority, self.previous.as_deref().unwrap_or_default())
    }

    /// Issues a new bundle if there is none, the names differ, or the renewal is due.
    pub(super) fn renew(
        old: Option<Self>,
        names: &[String],
        now: Timestamp,
    ) -> Result<Renewal, CertificateError> {
        let Some(old) = old else { return Self::with_new_authority(None, names, now).map(Renewal::Renewed) };
        if is_due(old.terms.authority_until, AUTHORITY_RENEWED_DAYS_BEFORE, now) {
            return Self::with_new_authority(Some(old.authority), names, now).map(Renewal::Renewed);
        }
        if old.terms.names == names && !is_due(old.terms.certificate_until, RENEWED_DAYS_BEFORE, now) {
            return Ok(Renewal::Unchanged(old));
        }
        let Self { authority, authority_key, terms: CertificateTerms { authority_until, .. }, .. } = old;
        let issuer = Issuer::new(authority_params(now)?.0, KeyPair::from_pem(authority_key.expose())?);
        let (certificate, key, certificate_until) = issue_certificate(&issuer, names, now)?;
        let terms = CertificateTerms { names: names.to_vec(), certificate_until, authority_until };
        Ok(Renewal::Renewed(Self { authority, authority_key, previous: None, certificate, key, terms }))
    }

    fn with_new_authority(
        previous: Option<String>,
        names: &[String],
        now: Timestamp,
    ) -> Result<Self, CertificateError> {
        let (params, authority_until) = authority_params(now)?;
        let key = KeyPair::generate()?;
        let authority = params.self_signed(&key)?.pem();
        let authority_key = Sensitive::new(key.serialize_pem());
        let issuer = Issuer::new(params, key);
        let (certificate, key, certificate_until) = issue_certificate(&issuer, names, now)?;
        let terms = CertificateTerms { names: names.to_vec(), certificate_until, authority_until };
        Ok(Self { authority, authority_key, previous, certificate, key, terms })
    }
}

fn is_due(until: Timestamp, days: i64, now: Timestamp) -> bool {
    until.duration_since(now) <= jiff::SignedDuration::from_hours(days * 24)
}

/// Valid from yesterday (clock skew) until `days` from today.
fn certificate_params(
    name: &str,
    names: &[String],
    days: i64,
    now: Timestamp,
) -> Result<(CertificateParams, Timestamp), CertificateError> {
    let mut params = CertificateParams::new(names.to_vec())?;
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    let today = now.to_zoned(TimeZone::UTC).date();
    let (from, until) = (today.checked_sub(1.day())?, today.checked_add(days.days())?);
    let date = |date: Date| {
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        rcgen::date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()))
    };
    (params.not_before, params.not_after) = (date(from), date(until));
    Ok((params, until.to_zoned(TimeZone::UTC)?.timestamp()))
}

fn authority_params(now: Timestamp) -> Result<(CertificateParams, Timestamp), CertificateError> {
    let (mut params, until) = certificate_params(AUTHORITY_NAME, &[], AUTHORITY_DAYS, now)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok((params, until))
}

fn issue_certificate(
    issuer: &Issuer<'_, KeyPair>,
    names: &[String],
    now: Timestamp,
) -> Result<(String, Sensitive<String>, Timestamp), CertificateError> {
    let (mut params, until) = certificate_params("capt", names, CERTIFICATE_DAYS, now)?;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?.pem();
    Ok((certificate, Sensitive::new(key.serialize_pem()), until))
}
