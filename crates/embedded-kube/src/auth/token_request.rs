//! `serviceaccounts/NAME/token`: a token for a service account, as `kubectl create token` asks for it.

use serde_json::{Value, json};

use super::{
    Auth,
    jwt::{Claims, ISSUER},
};
use crate::{
    clock,
    failure::{Answer, Failure, FieldError, GroupResource, quoted},
    object::{Meta, at, text},
};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";

impl Auth {
    /// A token for this account, as a `TokenRequest` with its status.
    pub fn token_request(&self, namespace: &str, name: &str, asked: &Value) -> Answer<Value> {
        for (key, own, what) in [("name", name, "name"), ("namespace", namespace, "namespace")] {
            let given = text(asked, &["metadata", key]);
            if !given.is_empty() && given != own {
                let fault = FieldError::invalid(
                    format!("metadata.{key}"),
                    given,
                    format!("must match the service account {what} if specified"),
                );
                return Err(Failure::invalid(GROUP, KIND, name, &[fault]));
            }
        }
        let account = self.find("serviceaccounts", namespace, name)?;
        let audiences = audiences(asked);
        let seconds = seconds(asked)?;
        let bound = self.bound(namespace, name, asked)?;
        let now = clock::now();
        let claims = Claims {
            account: &account,
            audiences: &audiences,
            bound,
            now,
            seconds,
            id: uuid::Uuid::new_v4().to_string(),
        };
        let token = self.bearers.signer().sign(&claims).map_err(Failure::internal)?;
        let end = now.checked_add(jiff::SignedDuration::from_secs(seconds)).map_err(Failure::internal)?;
        Ok(json!({
            "kind": KIND, "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": name, "namespace": namespace, "uid": account.uid(),
                "creationTimestamp": clock::seconds(now),
            },
            "spec": {
                "audiences": audiences, "expirationSeconds": seconds,
                "boundObjectRef": at(asked, &["spec", "boundObjectRef"]).cloned().unwrap_or_default(),
            },
            "status": { "token": token, "expirationTimestamp": clock::seconds(end) },
        }))
    }

    fn find(&self, plural: &str, namespace: &str, name: &str) -> Answer<Value> {
        self.objects
            .get(&format!("/{plural}/{namespace}/{name}"))
            .ok_or_else(|| Failure::not_found(&GroupResource::new("", plural), name))
    }

    /// Kind, name and uid of the object that the token is to be bound to.
    fn bound(
        &self,
        namespace: &str,
        account: &str,
        asked: &Value,
    ) -> Answer<Option<(String, String, String)>> {
        let Some(reference) = at(asked, &["spec", "boundObjectRef"]).filter(|it| !it.is_null()) else {
            return Ok(None);
        };
        let (kind, name) = (text(reference, &["kind"]), text(reference, &["name"]));
        let plural = match kind {
            "Pod" => "pods",
            "Secret" => "secrets",
            _ => {
                let version = text(reference, &["apiVersion"]);
                let text = format!("cannot bind token to object of type {version}, Kind={kind}");
                return Err(Failure::bad_request(text));
            }
        };
        let object = self.find(plural, namespace, name)?;
        if kind == "Pod" && text(&object, &["spec", "serviceAccountName"]) != account {
            return Err(Failure::bad_request(format!(
                "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                quoted(account)
            )));
        }
        let uid = text(reference, &["uid"]);
        if !uid.is_empty() && uid != object.uid() {
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(Failure::conflict(&GroupResource::new("", kind), name, &why));
        }
        Ok(Some((kind.to_owned(), name.to_owned(), object.uid().to_owned())))
    }
}

fn audiences(asked: &Value) -> Vec<String> {
    let list = at(asked, &["spec", "audiences"]).and_then(Value::as_array).into_iter().flatten();
    let given: Vec<String> = list.filter_map(Value::as_str).map(str::to_owned).collect();
    if given.is_empty() { vec![ISSUER.to_owned()] } else { given }
}

fn seconds(asked: &Value) -> Answer<i64> {
    let seconds = at(asked, &["spec", "expirationSeconds"]).and_then(Value::as_i64).unwrap_or(3600);
    let fault = if seconds < 600 {
        "may not specify a duration less than 10 minutes"
    } else if seconds > 1 << 32 {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(seconds);
    };
    let fault = FieldError::invalid("spec.expirationSeconds", seconds, fault);
    Err(Failure::invalid(GROUP, KIND, "", &[fault]))
}
