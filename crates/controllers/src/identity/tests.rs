//! The steps of an identity without an API server and without AWS.

use capt_engine::aws::CallerIdentity;
use capt_kinds::api::{CaptIdentity, conditions::types, names::IN_USE_FINALIZER};
use capt_kube::k8s::conditions::find;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use serde_json::{Value, json};

use super::{
    act::Verification,
    decide::{IdentityDecision, MissingFinalizers, decide},
    dereference::IdentityReferences,
    events::verification_event,
    status::observed,
    validate::validate,
};

fn now() -> Timestamp {
    "2026-11-17T06:00:00Z".parse().unwrap()
}

fn identity(spec: &Value) -> CaptIdentity {
    serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTIdentity",
        "metadata": {"name": "prod", "generation": 2}, "spec": spec,
    }))
    .unwrap()
}

fn from_secret() -> CaptIdentity {
    identity(&json!({"source": "Secret", "secretRef": {"name": "keys", "namespace": "capt"}}))
}

fn secret(held: bool, deleting: bool) -> Secret {
    let metadata = ObjectMeta {
        finalizers: held.then(|| vec![IN_USE_FINALIZER.to_owned()]),
        deletion_timestamp: deleting.then(|| Time(now())),
        ..ObjectMeta::default()
    };
    Secret { metadata, ..Secret::default() }
}

fn references(secret: Option<Secret>, users: &[&str]) -> IdentityReferences {
    IdentityReferences { secret, users: users.iter().map(|it| (*it).to_owned()).collect() }
}

fn decision(object: &CaptIdentity, references: &IdentityReferences) -> IdentityDecision {
    decide(object, validate(object).as_ref(), references)
}

#[test]
fn what_lacks_a_finalizer_gets_one() {
    let missing = |object, secret| IdentityDecision::Verify(MissingFinalizers { object, secret });
    let table = [
        (None, missing(true, false)),
        (Some(secret(false, false)), missing(true, true)),
        (Some(secret(true, false)), missing(true, false)),
        (Some(secret(false, true)), missing(true, false)),
    ];
    for (secret, expected) in table {
        assert_eq!(decision(&from_secret(), &references(secret.clone(), &[])), expected, "{secret:?}");
    }
    let mut held = from_secret();
    held.metadata.finalizers = Some(vec![IN_USE_FINALIZER.to_owned()]);
    assert_eq!(decision(&held, &references(Some(secret(true, false)), &["team/vpc"])), missing(false, false));
}

#[test]
fn a_deleted_identity_is_released_when_its_last_user_is_gone() {
    let mut object = from_secret();
    object.metadata.deletion_timestamp = Some(Time(now()));
    let there = Some(secret(false, false));
    assert_eq!(decision(&object, &references(there.clone(), &[])), IdentityDecision::Release);
    let used = decision(&object, &references(there, &["team/vpc"]));
    assert_eq!(used, IdentityDecision::Verify(MissingFinalizers::default()), "no finalizer can be added now");
}

#[test]
fn an_invalid_identity_is_held_but_not_verified() {
    let object = identity(&json!({"source": "Secret"}));
    match decision(&object, &references(None, &[])) {
        IdentityDecision::Reject(missing, problems) => {
            assert!(missing.object && !missing.secret);
            assert!(problems.contains("secretRef"), "{problems}");
        }
        other => panic!("{other:?}"),
    }
}

fn caller() -> CallerIdentity {
    let arn = "arn:aws:iam::123456789012:role/prod".to_owned();
    CallerIdentity { id: "123456789012".to_owned(), arn, region: None }
}

#[test]
fn the_status_names_the_account_and_keeps_it_while_aws_refuses() {
    let mut object = from_secret();
    let status = observed(&object, &Ok(caller()), &[], now());
    assert_eq!((status.account.as_deref(), status.observed_generation), (Some("123456789012"), Some(2)));
    assert_eq!(find(&status.conditions, types::READY).unwrap().reason, "IdentityVerified");
    assert!(find(&status.conditions, types::DELETING).is_none());
    object.status = Some(status);
    let refused: Verification = Err("the keys are expired".to_owned());
    let status = observed(&object, &refused, &[], now());
    let ready = find(&status.conditions, types::READY).unwrap();
    assert_eq!((ready.status.as_str(), ready.message.as_str()), ("False", "the keys are expired"));
    assert_eq!(status.account.as_deref(), Some("123456789012"));
}

#[test]
fn a_deleted_identity_names_its_users() {
    let mut object = from_secret();
    object.metadata.deletion_timestamp = Some(Time(now()));
    let status = observed(&object, &Ok(caller()), &["team/eks".to_owned(), "team/vpc".to_owned()], now());
    assert_eq!(find(&status.conditions, types::DELETING).unwrap().message, "in use by team/eks, team/vpc");
}

#[test]
fn only_a_refusal_is_an_event() {
    assert_eq!(verification_event(&Ok(caller())), None);
    let event = verification_event(&Err("no such role".to_owned())).unwrap();
    assert_eq!((event.reason, event.note.as_str()), ("IdentityRefused", "no such role"));
}
