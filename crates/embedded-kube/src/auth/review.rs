//! Access and token reviews. They are answered and never stored.

use serde_json::{Map, Value, json};

use super::{
    Auth,
    jwt::ISSUER,
    rbac::{Attributes, AuthorizationDecision, PolicyRule, ResolvedRules},
};
use crate::{
    clock,
    object::{MetaAccessor, MetaAccessorMut, get_path, str_at},
    registry::Resource,
    request::User,
    status_error::{ApiResult, FieldError, StatusError},
};

impl Auth {
    /// Answers a review submitted by `user`.
    pub async fn review(
        &self,
        resource: &Resource,
        namespace: &str,
        user: &User,
        asked: Value,
    ) -> ApiResult<Value> {
        check_type(resource, &asked)?;
        let (metadata, spec) = (asked.get("metadata"), asked.get("spec").cloned());
        let mut metadata = metadata.cloned().unwrap_or_else(|| json!({}));
        let spec = spec.filter(|spec| !spec.is_null()).unwrap_or_else(|| json!({}));
        let status = match resource.kind.as_str() {
            "TokenReview" => self.token_review(&spec).await?,
            "SelfSubjectReview" => json!({ "userInfo": user_info(user) }),
            "SelfSubjectRulesReview" => self.rules_review(&spec, user)?,
            "LocalSubjectAccessReview" => {
                check_local_namespace(namespace, &asked, resource)?;
                metadata["namespace"] = namespace.into();
                self.access_review(resource, &spec, &review_subject(&spec))?
            }
            "SubjectAccessReview" => self.access_review(resource, &spec, &review_subject(&spec))?,
            _ => self.access_review(resource, &spec, user)?,
        };
        let mut answer = json!({
            "kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata,
            "spec": spec, "status": status,
        });
        match resource.kind.as_str() {
            "SelfSubjectReview" => {
                answer.drop_field("spec");
                answer.set_meta("creationTimestamp", clock::format_time(clock::now()));
            }
            "SelfSubjectRulesReview" => answer["spec"] = json!({}),
            _ => {}
        }
        Ok(answer)
    }

    fn access_review(&self, resource: &Resource, spec: &Value, user: &User) -> ApiResult<Value> {
        let faults = validate_access_review(spec, resource);
        if !faults.is_empty() {
            return Err(invalid_review(resource, &faults));
        }
        let attributes = match non_null(spec, "resourceAttributes") {
            Some(wanted) => parse_attributes(wanted),
            None => {
                let path = str_at(spec, &["nonResourceAttributes", "path"]);
                Attributes::for_path(str_at(spec, &["nonResourceAttributes", "verb"]), path)
            }
        };
        let (allowed, reason) = match self.authorizer.decide(user, &attributes) {
            AuthorizationDecision::Allowed(why) => (true, why),
            AuthorizationDecision::NoOpinion(why) => (false, why),
        };
        let mut status = json!({ "allowed": allowed });
        if !reason.is_empty() {
            status["reason"] = reason.into();
        }
        Ok(status)
    }

    fn rules_review(&self, spec: &Value, user: &User) -> ApiResult<Value> {
        let namespace = str_at(spec, &["namespace"]);
        if namespace.is_empty() {
            return Err(StatusError::bad_request("no namespace on request"));
        }
        Ok(rules_status(&self.authorizer.resolve_rules(user, namespace)))
    }

    async fn token_review(&self, spec: &Value) -> ApiResult<Value> {
        let token = str_at(spec, &["token"]);
        if token.is_empty() {
            return Err(StatusError::bad_request("token is required for TokenReview in authentication"));
        }
        let audiences: Vec<String> = match get_path(spec, &["audiences"]).and_then(Value::as_array) {
            Some(list) if !list.is_empty() => {
                list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            _ => vec![ISSUER.to_owned()],
        };
        let signed =
            self.authenticator.signer().authenticate_for(token, &audiences, clock::now(), &*self.objects);
        let found = match signed {
            Some(found) => Some(found),
            None => self.authenticator.authenticate(token, &*self.objects).await.and_then(|user| {
                // A token without audiences is for this server.
                let own: Vec<String> = audiences.into_iter().filter(|one| one == ISSUER).collect();
                (!own.is_empty()).then_some((user, own))
            }),
        };
        Ok(match found {
            Some((user, audiences)) => {
                json!({ "authenticated": true, "user": user_info(&user), "audiences": audiences })
            }
            None => json!({ "user": {}, "error": "invalid bearer token" }),
        })
    }
}

/// 422; kube-apiserver omits the kind here.
fn invalid_review(resource: &Resource, faults: &[FieldError]) -> StatusError {
    StatusError::invalid(&resource.id.group, "", "", faults)
}

fn check_type(resource: &Resource, asked: &Value) -> ApiResult<()> {
    let (kind, version) = (str_at(asked, &["kind"]), str_at(asked, &["apiVersion"]));
    let right = (kind.is_empty() || kind == resource.kind)
        && (version.is_empty() || version == resource.api_version());
    if right && asked.is_object() {
        return Ok(());
    }
    let short = version.rsplit('/').next().unwrap_or_default();
    let package = resource.id.group.split('.').next().unwrap_or_default();
    Err(StatusError::bad_request(format!(
        "{kind} in version \"{short}\" cannot be handled as a {own}: converting ({short}.{kind}) to ({package}.{own}): unknown conversion",
        own = resource.kind
    )))
}

fn non_null<'a>(spec: &'a Value, key: &str) -> Option<&'a Value> {
    spec.get(key).filter(|value| !value.is_null())
}

fn validate_access_review(spec: &Value, resource: &Resource) -> Vec<FieldError> {
    let (by_resource, by_path) =
        (non_null(spec, "resourceAttributes"), non_null(spec, "nonResourceAttributes"));
    let mut faults = Vec::new();
    match (by_resource, by_path) {
        (Some(_), Some(path)) => faults.push(FieldError::invalid(
            "spec.nonResourceAttributes",
            // kube-apiserver shows its internal struct, whose fields have other names.
            json!({ "Path": str_at(path, &["path"]), "Verb": str_at(path, &["verb"]) }),
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => faults.push(FieldError::invalid(
            "spec.resourceAttributes",
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    let nobody = str_at(spec, &["user"]).is_empty()
        && get_path(spec, &["groups"]).and_then(Value::as_array).is_none_or(Vec::is_empty);
    if nobody && resource.kind != "SelfSubjectAccessReview" {
        faults.push(FieldError::invalid("spec.user", "", "at least one of user or group must be specified"));
    }
    faults
}

fn check_local_namespace(namespace: &str, asked: &Value, resource: &Resource) -> ApiResult<()> {
    let named = str_at(asked, &["spec", "resourceAttributes", "namespace"]);
    let own = if asked.namespace().is_empty() { namespace } else { asked.namespace() };
    if named != own {
        let fault =
            FieldError::invalid("spec.resourceAttributes.namespace", named, "must match metadata.namespace");
        return Err(invalid_review(resource, &[fault]));
    }
    if own != namespace {
        let text = format!("spec.resourceAttributes.namespace must match namespace: {namespace}");
        return Err(StatusError::bad_request(text));
    }
    Ok(())
}

fn parse_attributes(wanted: &Value) -> Attributes {
    let get = |key: &str| str_at(wanted, &[key]).to_owned();
    Attributes {
        verb: get("verb"),
        group: get("group"),
        resource: get("resource"),
        subresource: get("subresource"),
        namespace: get("namespace"),
        name: get("name"),
        path: None,
    }
}

fn string_list(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The user that a `SubjectAccessReview` asks about.
fn review_subject(spec: &Value) -> User {
    let extra = spec.get("extra").and_then(Value::as_object).into_iter().flatten();
    User {
        name: str_at(spec, &["user"]).to_owned(),
        uid: str_at(spec, &["uid"]).to_owned(),
        groups: string_list(spec.get("groups")),
        extra: extra.map(|(key, values)| (key.clone(), string_list(Some(values)))).collect(),
    }
}

fn user_info(user: &User) -> Value {
    let mut info = json!({ "username": user.name });
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.groups.is_empty() {
        info["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

fn rules_status(granted: &ResolvedRules) -> Value {
    let put = |rule: &mut Map<String, Value>, key: &str, list: &[String]| {
        if !list.is_empty() {
            rule.insert(key.to_owned(), json!(list));
        }
    };
    let resource_rule = |rule: &PolicyRule| {
        let mut shown = Map::new();
        shown.insert("verbs".to_owned(), json!(rule.verbs));
        put(&mut shown, "apiGroups", &rule.groups);
        put(&mut shown, "resources", &rule.resources);
        put(&mut shown, "resourceNames", &rule.names);
        Value::Object(shown)
    };
    let path_rule = |rule: &PolicyRule| json!({ "verbs": rule.verbs, "nonResourceURLs": rule.urls });
    let (on_resources, on_paths): (Vec<&PolicyRule>, Vec<&PolicyRule>) =
        granted.rules.iter().partition(|rule| rule.urls.is_empty());
    let mut status = json!({
        "resourceRules": on_resources.into_iter().map(resource_rule).collect::<Vec<_>>(),
        "nonResourceRules": on_paths.into_iter().map(path_rule).collect::<Vec<_>>(),
        "incomplete": false,
    });
    if !granted.errors.is_empty() {
        status["evaluationError"] = granted.errors.join(", ").into();
    }
    status
}
