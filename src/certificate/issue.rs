//! Making certificates, and deciding when it is time. Pure but for the keys.

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

use super::{CertificateError, store::Kept};

const CERTIFICATE_DAYS: i64 = 90;
const RENEWED_DAYS_BEFORE: i64 = 30;
const AUTHORITY_DAYS: i64 = 3650;
/// More than a certificate lives, so that none outlives its authority.
const AUTHORITY_RENEWED_DAYS_BEFORE: i64 = 180;
const AUTHORITY_NAME: &str = "capt authority";

const AUTHORITY: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const PREVIOUS_AUTHORITY: &str = "ca-previous.crt";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const TERMS: &str = "terms.json";

/// A certificate with its authority, as PEM.
#[derive(Clone, Debug)]
pub(super) struct Issued {
    authority: String,
    authority_key: Sensitive<String>,
    /// The authority before this one. Clients trust it for a while, because replicas do not change in one instant.
    previous: Option<String>,
    pub(super) certificate: String,
    pub(super) key: Sensitive<String>,
    terms: Terms,
}

/// What is known of the certificates without reading them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terms {
    names: Vec<String>,
    certificate_until: Timestamp,
    authority_until: Timestamp,
}

/// What there is to do with a certificate.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing: it is good.
    Good(Issued),
    /// To keep this one in its place.
    Renewed(Issued),
}

impl Issued {
    /// From what was kept; nothing if a part is missing or makes no sense.
    pub(super) fn read(kept: &Kept) -> Option<Self> {
        let text = |name: &str| kept.get(name).map(str::to_owned);
        Some(Self {
            authority: text(AUTHORITY)?,
            authority_key: Sensitive::new(text(AUTHORITY_KEY)?),
            previous: text(PREVIOUS_AUTHORITY),
            certificate: text(CERTIFICATE)?,
            key: Sensitive::new(text(KEY)?),
            terms: serde_json::from_str(kept.get(TERMS)?).ok()?,
        })
    }

    /// As it is kept.
    pub(super) fn write(&self) -> Kept {
        let Self { authority, authority_key, previous, certificate, key, terms } = self;
        let mut kept = Kept::default();
        kept.put(AUTHORITY, authority);
        kept.put(AUTHORITY_KEY, authority_key.expose());
        kept.put(CERTIFICATE, certificate);
        kept.put(KEY, key.expose());
        kept.put(TERMS, &serde_json::to_string(terms).unwrap_or_default());
        if let Some(previous) = previous {
            kept.put(PREVIOUS_AUTHORITY, previous);
        }
        kept
    }

    /// Whether the parts belong together: a client that trusts the authority accepts the certificate, and the authority can
    /// sign another one. Looked at shortly before the end, because a certificate that is over is renewed and not distrusted.
    pub(super) fn is_whole(&self) -> bool {
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

    /// The authorities to trust.
    pub(super) fn ca_bundle(&self) -> String {
        format!("{}{}", self.authority, self.previous.as_deref().unwrap_or_default())
    }

    /// A new one if there is none or if it is time.
    pub(super) fn renew(
        old: Option<Self>,
        names: &[String],
        now: Timestamp,
    ) -> Result<Step, CertificateError> {
        let Some(old) = old else { return Self::with_new_authority(None, names, now).map(Step::Renewed) };
        if is_due(old.terms.authority_until, AUTHORITY_RENEWED_DAYS_BEFORE, now) {
            return Self::with_new_authority(Some(old.authority), names, now).map(Step::Renewed);
        }
        if old.terms.names == names && !is_due(old.terms.certificate_until, RENEWED_DAYS_BEFORE, now) {
            return Ok(Step::Good(old));
        }
        let Self { authority, authority_key, terms: Terms { authority_until, .. }, .. } = old;
        let issuer = Issuer::new(authority_params(now)?.0, KeyPair::from_pem(authority_key.expose())?);
        let (certificate, key, certificate_until) = certificate(&issuer, names, now)?;
        let terms = Terms { names: names.to_vec(), certificate_until, authority_until };
        Ok(Step::Renewed(Self { authority, authority_key, previous: None, certificate, key, terms }))
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
        let (certificate, key, certificate_until) = certificate(&issuer, names, now)?;
        let terms = Terms { names: names.to_vec(), certificate_until, authority_until };
        Ok(Self { authority, authority_key, previous, certificate, key, terms })
    }
}

fn is_due(until: Timestamp, days: i64, now: Timestamp) -> bool {
    until.duration_since(now) <= jiff::SignedDuration::from_hours(days * 24)
}

/// From yesterday, because clocks differ, until so many days from today.
fn params(
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
    let (mut params, until) = params(AUTHORITY_NAME, &[], AUTHORITY_DAYS, now)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok((params, until))
}

fn certificate(
    issuer: &Issuer<'_, KeyPair>,
    names: &[String],
    now: Timestamp,
) -> Result<(String, Sensitive<String>, Timestamp), CertificateError> {
    let (mut params, until) = params("capt", names, CERTIFICATE_DAYS, now)?;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?.pem();
    Ok((certificate, Sensitive::new(key.serialize_pem()), until))
}
