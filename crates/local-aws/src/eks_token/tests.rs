use hyper::header::HeaderValue;
use rstest::rstest;

use super::*;

// A token made by botocore's `RequestSigner` for key `test`, secret `test`, cluster `demo`:
// an independent reference implementation.
const HOST: &str = "sts.eu-west-1.amazonaws.com";
const QUERY: &str = "Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=test%2F20261116%2Feu-west-1%2Fsts%2Faws4_request&X-Amz-Date=20261116T120000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id&X-Amz-Signature=bb6c1365f10339d97decdc08231d54962a5b5137897dae43f0cb3e7d28c078f0";

fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn headers(cluster: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static(HOST));
    headers.insert(CLUSTER_HEADER, HeaderValue::from_str(cluster).unwrap());
    headers
}

fn code(query: &str, cluster: &str, now: Timestamp) -> Option<String> {
    verify(("GET", "/", query), &headers(cluster), &AccessKeys::default(), now)
        .err()
        .map(|failure| failure.code)
}

#[test]
fn a_token_for_the_cluster_is_good_for_a_quarter_of_an_hour() {
    assert_eq!(code(QUERY, "demo", now()), None);
    assert_eq!(code(QUERY, "demo", now() + MAX_AGE), None);
    let late = now() + MAX_AGE + SignedDuration::from_secs(1);
    assert_eq!(code(QUERY, "demo", late).as_deref(), Some("SignatureDoesNotMatch"));
    let early = now() - MAX_CLOCK_SKEW - SignedDuration::from_secs(1);
    assert_eq!(code(QUERY, "demo", early).as_deref(), Some("SignatureDoesNotMatch"));
}

#[test]
fn a_token_for_another_cluster_is_refused() {
    assert_eq!(code(QUERY, "other", now()).as_deref(), Some("SignatureDoesNotMatch"));
    let mut nameless = headers("demo");
    nameless.remove(CLUSTER_HEADER);
    assert!(verify(("GET", "/", QUERY), &nameless, &AccessKeys::default(), now()).is_err());
}

#[rstest]
#[case("=test%2F", "=AKIDX%2F", "InvalidClientTokenId")]
#[case("=test%2F", "=t%2Fest%2F", "InvalidClientTokenId")]
#[case("=test%2F20261116", "=20261116", "SignatureDoesNotMatch")]
#[case("%2Feu-west-1%2F", "%2Feu-west-2%2F", "SignatureDoesNotMatch")]
#[case("Action=GetCallerIdentity", "Action=GetSessionToken", "SignatureDoesNotMatch")]
#[case("X-Amz-Date=20261116T120000Z", "X-Amz-Date=today", "IncompleteSignature")]
#[case("X-Amz-Date=20261116T120000Z", "X-Amz-Date=20261116T120001Z", "SignatureDoesNotMatch")]
#[case("X-Amz-Signature=", "X-Amz-Signature=z", "SignatureDoesNotMatch")]
#[case("X-Amz-Signature=", "X-Amz-Signature=0", "SignatureDoesNotMatch")]
#[case("X-Amz-Expires=60", "X-Amz-Expires=900", "SignatureDoesNotMatch")]
fn a_token_that_was_changed_is_refused(#[case] part: &str, #[case] by: &str, #[case] expected: &str) {
    assert!(QUERY.contains(part), "{part}");
    assert_eq!(code(&QUERY.replacen(part, by, 1), "demo", now()).as_deref(), Some(expected));
}

#[test]
fn only_a_presigned_request_that_signs_a_cluster_is_a_token() {
    let of = |service: &str| CredentialScope {
        access_key: "test".to_owned(),
        region: "eu-west-1".to_owned(),
        service: service.to_owned(),
    };
    assert!(is_eks_token(&of("sts"), QUERY));
    assert!(!is_eks_token(&of("s3"), QUERY));
    assert!(!is_eks_token(&of("sts"), &QUERY.replace("%3Bx-k8s-aws-id", "")));
    assert!(!is_eks_token(&of("sts"), "Action=GetCallerIdentity"));
}
