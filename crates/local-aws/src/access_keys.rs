//! The access keys whose secrets are known here: the one of the documentation, and those that IAM and STS gave out.
//!
//! Nothing but EKS tokens needs them. Moto keeps no secrets that it would check a signature with, so they are read off
//! its answers as they pass.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use roxmltree::Document;

/// Operations that give out keys.
const GIVING: [&str; 6] = [
    "AssumeRole",
    "AssumeRoleWithSAML",
    "AssumeRoleWithWebIdentity",
    "CreateAccessKey",
    "GetFederationToken",
    "GetSessionToken",
];

/// Far more than anybody has; whoever asks for sessions in a loop must not fill the memory.
const MOST: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Keys(Mutex<BTreeMap<String, String>>);

impl Default for Keys {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::from([("test".to_owned(), "test".to_owned())])))
    }
}

pub(crate) fn gives_keys(operation: &str) -> bool {
    GIVING.contains(&operation)
}

impl Keys {
    /// Remembers the key in an answer, if there is one.
    pub(crate) fn learn(&self, answer: &[u8]) {
        let Ok(text) = std::str::from_utf8(answer) else { return };
        let Ok(xml) = Document::parse(text) else { return };
        let first = |name: &str| {
            let node = xml.descendants().find(|node| node.tag_name().name() == name);
            node.and_then(|node| node.text()).map(|text| text.trim().to_owned())
        };
        let (Some(key), Some(secret)) = (first("AccessKeyId"), first("SecretAccessKey")) else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MOST {
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
        let keys = Keys::default();
        assert_eq!(keys.secret("test").as_deref(), Some("test"));
        assert_eq!(keys.secret("ASIAX"), None);
        let answer = br#"<AssumeRoleResponse xmlns="urn:x"><AssumeRoleResult><Credentials>
            <AccessKeyId>ASIAX</AccessKeyId><SecretAccessKey>hush</SecretAccessKey>
            </Credentials></AssumeRoleResult></AssumeRoleResponse>"#;
        keys.learn(answer);
        assert_eq!(keys.secret("ASIAX").as_deref(), Some("hush"));
    }

    #[test]
    fn an_answer_without_a_key_teaches_nothing() {
        let keys = Keys::default();
        keys.learn(b"<Error><AccessKeyId>AK</AccessKeyId></Error>");
        keys.learn(b"\xff<");
        assert_eq!(keys.secret("AK"), None);
    }
}
