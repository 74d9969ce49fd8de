//! The cluster's certificate authority and the server certificate.
//!
//! The authority is generated once and stored; the server certificate is generated at every start, for the names and
//! addresses of that start.

use std::sync::Arc;

use jiff::{Timestamp, ToSpan, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

/// Why TLS setup failed.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Generating or signing a certificate failed.
    #[error("failed to generate a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The TLS configuration is invalid.
    #[error("failed to build the TLS configuration")]
    Config(#[from] rustls::Error),
    /// The validity is out of range.
    #[error("the certificate validity is out of range; check the system clock")]
    Clock(#[from] jiff::Error),
}

/// Certificate and key of the authority, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateAuthority {
    /// The certificate, published to clients.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

fn certificate_params(
    name: &str,
    names: Vec<String>,
    years: i64,
    now: Timestamp,
) -> Result<CertificateParams, TlsError> {
    let mut params = CertificateParams::new(names)?;
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    let today = now.to_zoned(TimeZone::UTC).date();
    let (from, until) = (today.checked_sub(1.day())?, today.checked_add(years.years())?);
    let date = |date: jiff::civil::Date| {
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        rcgen::date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()))
    };
    params.not_before = date(from);
    params.not_after = date(until);
    Ok(params)
}

fn authority_params(now: Timestamp) -> Result<CertificateParams, TlsError> {
    let mut params = certificate_params("embedded-kube", Vec::new(), 10, now)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

impl CertificateAuthority {
    /// Generates a new authority.
    pub fn generate(now: Timestamp) -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let certificate = authority_params(now)?.self_signed(&key)?.pem();
        Ok(Self { certificate, key: key.serialize_pem() })
    }

    /// A TLS server configuration with a new certificate for these names and addresses.
    pub fn server_config(&self, names: &[String], now: Timestamp) -> Result<ServerConfig, TlsError> {
        let issuer = Issuer::new(authority_params(now)?, KeyPair::from_pem(&self.key)?);
        let mut params = certificate_params("embedded-kube-server", names.to_vec(), 1, now)?;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}
