//! `serviceaccounts/NAME/token`: issues a service account token, as for `kubectl create token`.

use serde_json::{Value, json};

use super::{
    Auth,
    jwt::{ISSUER, TokenClaims},
};
use crate::{
    clock,
    object::{MetaAccessor, get_path, str_at},
    status_error::{ApiResult, FieldError, GroupResource, StatusError, go_quote},
};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";

impl Auth {
    /// Issues a token for this account and returns the `TokenRequest` with its status.
    pub fn token_request(&self, namespace: &str, name: &str, asked: &Value) -> ApiResult<Value> {
        for (key, own, what) in [("name", name, "name"), ("namespace", namespace, "namespace")] {
            let given = str_at(asked, &["metadata", key]);
            if !given.is_empty() && given != own {
                let fault = FieldError::invalid(
                    format!("metadata.{key}"),
                    given,
                    format!("must match the service account {what} if specified"),
                );
                return Err(StatusError::invalid(GROUP, KIND, name, &[fault]));
            }
        }
        let account = self.find_object("serviceaccounts", namespace, name)?;
        let audiences = requested_audiences(asked);
        let seconds = expiration_seconds(asked)?;
        let bound = self.bound_object(namespace, name, asked)?;
        let now = clock::now();
        let claims = TokenClaims {
            account: &account,
            audiences: &audiences,
            bound,
            now,
            seconds,
            id: uuid::Uuid::new_v4().to_string(),
        };
        let token = self.authenticator.signer().sign(&claims).map_err(StatusError::internal)?;
        let end = now.checked_add(jiff::SignedDuration::from_secs(seconds)).map_err(StatusError::internal)?;
        Ok(json!({
            "kind": KIND, "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": name, "namespace": namespace, "uid": account.uid(),
                "creationTimestamp": clock::format_time(now),
            },
            "spec": {
                "audiences": audiences, "expirationSeconds": seconds,
                "boundObjectRef": get_path(asked, &["spec", "boundObjectRef"]).cloned().unwrap_or_default(),
            },
            "status": { "token": token, "expirationTimestamp": clock::format_time(end) },
        }))
    }

    fn find_object(&self, plural: &str, namespace: &str, name: &str) -> ApiResult<Value> {
        self.objects
            .get(&format!("/{plural}/{namespace}/{name}"))
            .ok_or_else(|| StatusError::not_found(&GroupResource::new("", plural), name))
    }

    /// Kind, name and uid of the object that the token is bound to.
    fn bound_object(
        &self,
        namespace: &str,
        account: &str,
        asked: &Value,
    ) -> ApiResult<Option<(String, String, String)>> {
        let Some(reference) = get_path(asked, &["spec", "boundObjectRef"]).filter(|it| !it.is_null()) else {
            return Ok(None);
        };
        let (kind, name) = (str_at(reference, &["kind"]), str_at(reference, &["name"]));
        let plural = match kind {
            "Pod" => "pods",
            "Secret" => "secrets",
            _ => {
                let version = str_at(reference, &["apiVersion"]);
                let text = format!("cannot bind token to object of type {version}, Kind={kind}");
                return Err(StatusError::bad_request(text));
            }
        };
        let object = self.find_object(plural, namespace, name)?;
        if kind == "Pod" && str_at(&object, &["spec", "serviceAccountName"]) != account {
            return Err(StatusError::bad_request(format!(
                "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                go_quote(account)
            )));
        }
        let uid = str_at(reference, &["uid"]);
        if !uid.is_empty() && uid != object.uid() {
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(StatusError::conflict(&GroupResource::new("", kind), name, &why));
        }
        Ok(Some((kind.to_owned(), name.to_owned(), object.uid().to_owned())))
    }
}

fn requested_audiences(asked: &Value) -> Vec<String> {
    let list = get_path(asked, &["spec", "audiences"]).and_then(Value::as_array).into_iter().flatten();
    let given: Vec<String> = list.filter_map(Value::as_str).map(str::to_owned).collect();
    if given.is_empty() { vec![ISSUER.to_owned()] } else { given }
}

fn expiration_seconds(asked: &Value) -> ApiResult<i64> {
    let seconds = get_path(asked, &["spec", "expirationSeconds"]).and_then(Value::as_i64).unwrap_or(3600);
    let fault = if seconds < 600 {
        "may not specify a duration less than 10 minutes"
    } else if seconds > 1 << 32 {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(seconds);
    };
    let fault = FieldError::invalid("spec.expirationSeconds", seconds, fault);
    Err(StatusError::invalid(GROUP, KIND, "", &[fault]))
}
