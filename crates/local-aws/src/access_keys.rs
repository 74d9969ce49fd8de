//! Access keys with known secrets: the documented one, and those issued by IAM and STS.
//!
//! Only EKS tokens need them. Moto does not expose secrets, so they are recorded from its responses.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use roxmltree::Document;

/// Operations that issue access keys.
const ISSUING_OPERATIONS: [&str; 6] = [
    "AssumeRole",
    "AssumeRoleWithSAML",
    "AssumeRoleWithWebIdentity",
    "CreateAccessKey",
    "GetFederationToken",
    "GetSessionToken",
];

/// Bound against clients that create sessions in a loop.
const MAX_KEYS: usize = 10_000;

#[derive(Debug)]
pub(crate) struct AccessKeys(Mutex<BTreeMap<String, String>>);

impl Default for AccessKeys {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::from([("test".to_owned(), "test".to_owned())])))
    }
}

pub(crate) fn issues_keys(operation: &str) -> bool {
    ISSUING_OPERATIONS.contains(&operation)
}

impl AccessKeys {
    /// Records the access key in a response, if there is one.
    pub(crate) fn record_from_response(&self, answer: &[u8]) {
        let Ok(text) = std::str::from_utf8(answer) else { return };
        let Ok(xml) = Document::parse(text) else { return };
        let first = |name: &str| {
            let node = xml.descendants().find(|node| node.tag_name().name() == name);
            node.and_then(|node| node.text()).map(|text| text.trim().to_owned())
        };
        let (Some(key), Some(secret)) = (first("AccessKeyId"), first("SecretAccessKey")) else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_KEYS {
            known.insert(key, secret);
        }
    }

    pub(crate) fn secret(&self, key: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_once_it_was_given_out() {
        let keys = AccessKeys::default();
        assert_eq!(keys.secret("test").as_deref(), Some("test"));
        assert_eq!(keys.secret("ASIAX"), None);
        let answer = br#"<AssumeRoleResponse xmlns="urn:x"><AssumeRoleResult><Credentials>
            <AccessKeyId>ASIAX</AccessKeyId><SecretAccessKey>hush</SecretAccessKey>
            </Credentials></AssumeRoleResult></AssumeRoleResponse>"#;
        keys.record_from_response(answer);
        assert_eq!(keys.secret("ASIAX").as_deref(), Some("hush"));
    }

    #[test]
    fn an_answer_without_a_key_teaches_nothing() {
        let keys = AccessKeys::default();
        keys.record_from_response(b"<Error><AccessKeyId>AK</AccessKeyId></Error>");
        keys.record_from_response(b"\xff<");
        assert_eq!(keys.secret("AK"), None);
    }
}
