//! Keys and certificates of the real control plane.

use std::{fs, path::Path};

use anyhow::Result;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// An authority, with its files in a directory.
pub(crate) struct Pki<'a> {
    directory: &'a Path,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl<'a> Pki<'a> {
    pub(crate) fn create(directory: &'a Path) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, "conformance");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        fs::write(directory.join("ca.crt"), authority.pem())?;
        let pki = Self { directory, authority };
        pki.certificate(
            "apiserver",
            "kube-apiserver",
            None,
            &["localhost", "127.0.0.1", "kubernetes.default.svc"],
        )?;
        pki.certificate("kubelet", "system:node:kubelet", Some("system:nodes"), &["127.0.0.1"])?;
        pki.certificate("admin", "admin", Some("system:masters"), &[])?;
        pki.certificate("kcm", "system:kube-controller-manager", None, &[])?;
        let accounts = KeyPair::generate()?;
        fs::write(directory.join("sa.key"), accounts.serialize_pem())?;
        fs::write(directory.join("sa.pub"), accounts.public_key_pem())?;
        Ok(pki)
    }

    fn certificate(&self, file: &str, name: &str, group: Option<&str>, hosts: &[&str]) -> Result<()> {
        let mut params =
            CertificateParams::new(hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![if hosts.is_empty() {
            ExtendedKeyUsagePurpose::ClientAuth
        } else {
            ExtendedKeyUsagePurpose::ServerAuth
        }];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.authority)?;
        fs::write(self.directory.join(format!("{file}.crt")), certificate.pem())?;
        fs::write(self.directory.join(format!("{file}.key")), key.serialize_pem())?;
        Ok(())
    }

    /// A kubeconfig of one of the users, in JSON, which is YAML.
    pub(crate) fn kubeconfig(&self, user: &str, server: &str) -> Result<String> {
        let data =
            |file: String| -> Result<String> { Ok(STANDARD.encode(fs::read(self.directory.join(file))?)) };
        Ok(serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "conformance",
            "contexts": [{ "name": "conformance", "context": { "cluster": "conformance", "user": user } }],
            "clusters": [{ "name": "conformance", "cluster": {
                "server": server, "certificate-authority-data": data("ca.crt".into())?,
            } }],
            "users": [{ "name": user, "user": {
                "client-certificate-data": data(format!("{user}.crt"))?,
                "client-key-data": data(format!("{user}.key"))?,
            } }],
        })
        .to_string())
    }
}
