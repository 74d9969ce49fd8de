//! `Impersonate-*` headers: whom a caller wants to be taken for, and what it must be allowed for that.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;

use super::{AUTHENTICATED, Attributes};
use crate::{
    failure::{Answer, Failure, quoted},
    request::User,
};

/// What the headers ask for.
pub struct Asked {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

/// Reads the headers; `None` if nobody is to be impersonated.
pub fn asked(headers: &HeaderMap) -> Answer<Option<Asked>> {
    let name = values(headers, "impersonate-user").into_iter().next().unwrap_or_default();
    let uid = values(headers, "impersonate-uid").into_iter().next().unwrap_or_default();
    let groups = values(headers, "impersonate-group");
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for key in headers.keys().map(HeaderName::as_str) {
        if let Some(rest) = key.strip_prefix("impersonate-extra-") {
            let name = percent_decode_str(rest).decode_utf8_lossy().to_lowercase();
            extra.entry(name).or_default().extend(values(headers, key));
        }
    }
    if name.is_empty() {
        if groups.is_empty() && uid.is_empty() && extra.is_empty() {
            return Ok(None);
        }
        return Err(Failure::bad_request(format!(
            "requested {} without impersonating a user name",
            in_go(&uid, &groups, &extra)
        )));
    }
    Ok(Some(Asked { name, uid, groups, extra }))
}

/// The real server prints its own value here.
fn in_go(uid: &str, groups: &[String], extra: &BTreeMap<String, Vec<String>>) -> String {
    let list = |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", ");
    let groups = match groups {
        [] => "[]string(nil)".to_owned(),
        some => format!("[]string{{{}}}", list(some)),
    };
    let pairs: Vec<String> =
        extra.iter().map(|(key, values)| format!("{}:[]string{{{}}}", quoted(key), list(values))).collect();
    let extra = match pairs.as_slice() {
        [] => "map[string][]string(nil)".to_owned(),
        some => format!("map[string][]string{{{}}}", some.join(", ")),
    };
    let uid = quoted(uid);
    format!("&user.DefaultInfo{{Name:\"\", UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

impl Asked {
    /// What the caller must be allowed.
    pub fn permissions(&self) -> Vec<Attributes> {
        let wanted = |group: &str, resource: &str, name: &str| Attributes {
            verb: "impersonate".to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        };
        let mut all = vec![match self.service_account() {
            Some((namespace, name)) => {
                Attributes { namespace: namespace.to_owned(), ..wanted("", "serviceaccounts", name) }
            }
            None => wanted("", "users", &self.name),
        }];
        all.extend(self.groups.iter().map(|group| wanted("", "groups", group)));
        if !self.uid.is_empty() {
            all.push(wanted("authentication.k8s.io", "uids", &self.uid));
        }
        for (key, values) in &self.extra {
            all.extend(values.iter().map(|value| Attributes {
                subresource: key.clone(),
                ..wanted("authentication.k8s.io", "userextras", value)
            }));
        }
        all
    }

    fn service_account(&self) -> Option<(&str, &str)> {
        self.name.strip_prefix("system:serviceaccount:")?.split_once(':')
    }

    /// The user that results.
    pub fn user(self) -> User {
        let mut groups = self.groups.clone();
        if let (true, Some((namespace, _))) = (groups.is_empty(), self.service_account()) {
            groups
                .extend(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
        }
        let implied = if self.name == "system:anonymous" { "system:unauthenticated" } else { AUTHENTICATED };
        if !groups.iter().any(|group| group == AUTHENTICATED || group == "system:unauthenticated") {
            groups.push(implied.to_owned());
        }
        User { name: self.name, uid: self.uid, groups, extra: self.extra }
    }
}
