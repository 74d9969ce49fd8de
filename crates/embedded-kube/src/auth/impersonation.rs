//! `Impersonate-*` headers and the permissions that they require.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;

use super::{Attributes, SYSTEM_AUTHENTICATED};
use crate::{
    request::User,
    status_error::{ApiResult, StatusError, go_quote},
};

/// The impersonated identity.
pub struct ImpersonationRequest {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

fn header_values(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

/// Parses the headers; `None` without impersonation.
pub fn parse_headers(headers: &HeaderMap) -> ApiResult<Option<ImpersonationRequest>> {
    let name = header_values(headers, "impersonate-user").into_iter().next().unwrap_or_default();
    let uid = header_values(headers, "impersonate-uid").into_iter().next().unwrap_or_default();
    let groups = header_values(headers, "impersonate-group");
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for key in headers.keys().map(HeaderName::as_str) {
        if let Some(rest) = key.strip_prefix("impersonate-extra-") {
            let name = percent_decode_str(rest).decode_utf8_lossy().to_lowercase();
            extra.entry(name).or_default().extend(header_values(headers, key));
        }
    }
    if name.is_empty() {
        if groups.is_empty() && uid.is_empty() && extra.is_empty() {
            return Ok(None);
        }
        return Err(StatusError::bad_request(format!(
            "requested {} without impersonating a user name",
            go_user_info(&uid, &groups, &extra)
        )));
    }
    Ok(Some(ImpersonationRequest { name, uid, groups, extra }))
}

/// Formats the user as Go prints it in kube-apiserver's error text.
fn go_user_info(uid: &str, groups: &[String], extra: &BTreeMap<String, Vec<String>>) -> String {
    let list = |words: &[String]| words.iter().map(|word| go_quote(word)).collect::<Vec<_>>().join(", ");
    let groups = match groups {
        [] => "[]string(nil)".to_owned(),
        some => format!("[]string{{{}}}", list(some)),
    };
    let pairs: Vec<String> =
        extra.iter().map(|(key, values)| format!("{}:[]string{{{}}}", go_quote(key), list(values))).collect();
    let extra = match pairs.as_slice() {
        [] => "map[string][]string(nil)".to_owned(),
        some => format!("map[string][]string{{{}}}", some.join(", ")),
    };
    let uid = go_quote(uid);
    format!("&user.DefaultInfo{{Name:\"\", UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

impl ImpersonationRequest {
    /// Permissions that the caller needs.
    pub fn required_permissions(&self) -> Vec<Attributes> {
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

    /// The impersonated user.
    pub fn into_user(self) -> User {
        let mut groups = self.groups.clone();
        if let (true, Some((namespace, _))) = (groups.is_empty(), self.service_account()) {
            groups
                .extend(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
        }
        let implied =
            if self.name == "system:anonymous" { "system:unauthenticated" } else { SYSTEM_AUTHENTICATED };
        if !groups.iter().any(|group| group == SYSTEM_AUTHENTICATED || group == "system:unauthenticated") {
            groups.push(implied.to_owned());
        }
        User { name: self.name, uid: self.uid, groups, extra: self.extra }
    }
}
