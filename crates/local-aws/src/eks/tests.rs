//! Tests of the EKS model with a manually advanced clock.

#![expect(clippy::needless_pass_by_value, reason = "`json!` reads best where it is passed")]

mod access;
mod cluster;
mod fargate;
mod hosted;
mod robust;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    context::{Effect, ModelSettings, RequestContext, ResolvedPrerequisites, RoleFacts, SubnetFacts},
    error::ApiResult,
    handle_request, input,
    pagination::QueryString,
    router::route,
    state::EksState,
};
use crate::{
    config::{Limits, Timing},
    region::Region,
};

pub(super) const CLUSTER_ROLE: &str = "arn:aws:iam::123456789012:role/control-plane";
pub(super) const POD_ROLE: &str = "arn:aws:iam::123456789012:role/pods";
pub(super) const DEV_ROLE: &str = "arn:aws:iam::123456789012:role/developer";
pub(super) const CREATOR: &str = "arn:aws:iam::123456789012:user/creator";

/// An account with two private subnets, a public one and three roles, and a manual clock.
pub(super) struct TestAccount {
    pub(super) state: EksState,
    pub(super) now: Timestamp,
    pub(super) settings: ModelSettings,
    pub(super) facts: ResolvedPrerequisites,
    pub(super) effects: Vec<Effect>,
}

impl TestAccount {
    pub(super) fn new() -> Self {
        let subnet = |vpc: &str, zone: &str, public| SubnetFacts {
            vpc_id: vpc.to_owned(),
            zone: format!("eu-west-1{zone}"),
            zone_id: format!("euw1-az{zone}"),
            public,
        };
        let role = |service: &str| RoleFacts { trusted_services: [service.to_owned()].into() };
        let facts = ResolvedPrerequisites {
            subnets: [
                ("subnet-a", subnet("vpc-1", "a", false)),
                ("subnet-b", subnet("vpc-1", "b", false)),
                ("subnet-a2", subnet("vpc-1", "a", false)),
                ("subnet-pub", subnet("vpc-1", "b", true)),
                ("subnet-other", subnet("vpc-2", "b", false)),
            ]
            .map(|(id, subnet)| (id.to_owned(), subnet))
            .into(),
            roles: [
                (CLUSTER_ROLE, role("eks.amazonaws.com")),
                (POD_ROLE, role("eks-fargate-pods.amazonaws.com")),
                (DEV_ROLE, role("pods.eks.amazonaws.com")),
            ]
            .map(|(arn, role)| (arn.to_owned(), role))
            .into(),
            users: std::collections::BTreeSet::new(),
            caller: CREATOR.to_owned(),
        };
        Self {
            state: EksState::default(),
            now: "2026-11-16T12:00:00Z".parse().unwrap(),
            settings: ModelSettings {
                timing: Timing::default(),
                limits: Limits::default(),
                endpoint_base: None,
                has_host: false,
                certificate_authority: "Y2E=".to_owned(),
            },
            facts,
            effects: Vec::new(),
        }
    }

    /// With an ACTIVE cluster `demo` in API mode.
    pub(super) fn with_cluster() -> Self {
        let mut account = Self::new();
        account.ok("POST", "/clusters", cluster_request());
        account.pass(2000);
        account
    }

    /// With an ACTIVE profile `one` for namespace `default` in it.
    pub(super) fn with_profile() -> Self {
        let mut account = Self::with_cluster();
        account.ok("POST", "/clusters/demo/fargate-profiles", profile_request("one"));
        account.pass(1000);
        account
    }

    pub(super) fn pass(&mut self, ms: i64) {
        self.now += SignedDuration::from_millis(ms);
    }

    pub(super) fn call(&mut self, method: &str, target: &str, body: &Value) -> ApiResult<Value> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let route = route(method, path).unwrap_or_else(|| panic!("no route for {method} {path}"));
        let mut ctx = RequestContext {
            region: Region::new("eu-west-1"),
            now: self.now,
            settings: &self.settings,
            resolved: self.facts.clone(),
            effects: Vec::new(),
        };
        let body = input::parse_json_body(body.to_string().as_bytes())?;
        let answer = handle_request(&mut self.state, &mut ctx, &route, QueryString(query), &body);
        self.effects.extend(ctx.effects);
        answer
    }

    #[track_caller]
    pub(super) fn ok(&mut self, method: &str, target: &str, body: Value) -> Value {
        self.call(method, target, &body).unwrap_or_else(|error| panic!("{method} {target}: {error:?}"))
    }

    #[track_caller]
    pub(super) fn get(&mut self, target: &str) -> Value {
        self.ok("GET", target, json!({}))
    }

    /// The exception of a call that must be refused: its code and message.
    #[track_caller]
    pub(super) fn refused(&mut self, method: &str, target: &str, body: Value) -> (&'static str, String) {
        match self.call(method, target, &body) {
            Ok(answer) => panic!("{method} {target} must be refused, but answered {answer}"),
            Err(error) => (error.code, error.message),
        }
    }

    #[track_caller]
    pub(super) fn status(&mut self, target: &str) -> String {
        let answer = self.get(target);
        let object = answer.as_object().unwrap().values().next().unwrap();
        object["status"].as_str().unwrap().to_owned()
    }
}

pub(super) fn cluster_request() -> Value {
    json!({
        "name": "demo",
        "version": "1.33",
        "roleArn": CLUSTER_ROLE,
        "resourcesVpcConfig": { "subnetIds": ["subnet-a", "subnet-b"] },
        "accessConfig": { "authenticationMode": "API" },
    })
}

pub(super) fn profile_request(name: &str) -> Value {
    json!({
        "fargateProfileName": name,
        "podExecutionRoleArn": POD_ROLE,
        "subnets": ["subnet-a", "subnet-b"],
        "selectors": [{ "namespace": "default" }],
    })
}

/// The request with some members replaced; `null` removes one.
pub(super) fn with(mut request: Value, changes: Value) -> Value {
    let members = request.as_object_mut().unwrap();
    for (key, value) in changes.as_object().unwrap().clone() {
        if value.is_null() {
            members.remove(&key);
        } else {
            members.insert(key, value);
        }
    }
    request
}
