use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use rstest::rstest;

use super::{
    presigned::{Presigned, Refusal, mac},
    *,
};
use crate::hex::hex;

const AT: &str = "20270115T080000Z";

fn now() -> Timestamp {
    "2027-01-15T08:00:30Z".parse().unwrap()
}

fn sts(secrets: &[(&str, &str)]) -> Sts {
    Sts {
        endpoint: "http://127.0.0.1:4566".to_owned(),
        cluster: "shop".to_owned(),
        secrets: secrets.iter().map(|(key, secret)| ((*key).to_owned(), (*secret).to_owned())).collect(),
        ..Sts::default()
    }
}

fn query() -> String {
    format!(
        "Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKID%2F20270115%2Feu-west-1%2Fsts%2Faws4_request&X-Amz-Date={AT}&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id"
    )
}

fn token(url: &str) -> String {
    format!("k8s-aws-v1.{}", BASE64_URL_SAFE_NO_PAD.encode(url))
}

/// Signs for a cluster with the secret `hush`.
fn signed(cluster: &str) -> String {
    use sha2::{Digest, Sha256};
    let host = "sts.eu-west-1.amazonaws.com";
    let empty = hex(&Sha256::digest(b""));
    let canonical =
        format!("GET\n/\n{}\nhost:{host}\nx-k8s-aws-id:{cluster}\n\nhost;x-k8s-aws-id\n{empty}", query());
    let text = format!(
        "AWS4-HMAC-SHA256\n{AT}\n20270115/eu-west-1/sts/aws4_request\n{}",
        hex(&Sha256::digest(canonical.as_bytes()))
    );
    let mut key = b"AWS4hush".to_vec();
    for part in ["20270115", "eu-west-1", "sts", "aws4_request"] {
        key = mac(&key, part.as_bytes());
    }
    token(&format!("https://{host}/?{}&X-Amz-Signature={}", query(), hex(&mac(&key, text.as_bytes()))))
}

#[test]
fn a_good_token_gives_its_query_and_signed_host() {
    let read = Presigned::read(&signed("shop"), &sts(&[("AKID", "hush")]), now()).unwrap();
    assert_eq!(read.host, "sts.eu-west-1.amazonaws.com");
    assert!(read.query.starts_with("Action=GetCallerIdentity&"));
}

#[test]
fn a_token_for_another_cluster_has_a_wrong_signature() {
    let refused = Presigned::read(&signed("other"), &sts(&[("AKID", "hush")]), now());
    assert_eq!(refused, Err(Refusal::Signature));
    assert!(Presigned::read(&signed("other"), &sts(&[]), now()).is_ok(), "STS has to find out then");
}

#[test]
fn a_key_that_is_not_known_is_refused_where_others_are() {
    let refused = Presigned::read(&signed("shop"), &sts(&[("AKOTHER", "hush")]), now());
    assert_eq!(refused, Err(Refusal::Key));
}

#[rstest]
#[case("https://evil.example/?", "", Refusal::Target)]
#[case("https://sts.evil.example.amazonaws.com.evil/?", "", Refusal::Target)]
#[case("https://sts.x/y.amazonaws.com/?", "", Refusal::Target)]
#[case("https://user@sts.amazonaws.com/?", "", Refusal::Target)]
#[case("https://sts.amazonaws.com/other?", "", Refusal::Target)]
#[case("ftp://sts.amazonaws.com/?", "", Refusal::Form)]
#[case("https://sts.amazonaws.com/?", "&Foo=bar", Refusal::Parameter)]
#[case("https://sts.amazonaws.com/?", "&action=Other", Refusal::Parameter)]
#[case("https://sts.amazonaws.com/?", "\r\nHost: x", Refusal::Form)]
fn a_url_that_is_not_exactly_the_call_is_refused(
    #[case] start: &str,
    #[case] end: &str,
    #[case] why: Refusal,
) {
    let token = token(&format!("{start}{}{end}", query()));
    assert_eq!(Presigned::read(&token, &sts(&[]), now()), Err(why));
}

#[rstest]
#[case("GetCallerIdentity", "AssumeRole", Refusal::Target)]
#[case("Expires=60", "Expires=901", Refusal::Time)]
#[case("Expires=60", "Expires=x", Refusal::Parameter)]
#[case("T080000Z", "T074500Z", Refusal::Time)]
#[case("T080000Z", "T090000Z", Refusal::Time)]
#[case("%3Bx-k8s-aws-id", "", Refusal::Unsigned)]
#[case("host%3Bx-k8s-aws-id", "x-k8s-aws-id", Refusal::Unsigned)]
#[case("%2Fsts%2F", "%2Fs3%2F", Refusal::Scope)]
#[case("%2F20270115%2F", "%2F20270114%2F", Refusal::Scope)]
#[case("aws4_request", "aws5_request", Refusal::Scope)]
fn a_query_that_is_not_fresh_and_bound_is_refused(
    #[case] part: &str,
    #[case] by: &str,
    #[case] why: Refusal,
) {
    let token = token(&format!("https://sts.amazonaws.com/?{}", query().replace(part, by)));
    assert_eq!(Presigned::read(&token, &sts(&[]), now()), Err(why));
}

#[test]
fn the_configured_endpoint_is_a_good_host_too() {
    let token = token(&format!("http://127.0.0.1:4566/?{}", query()));
    assert!(Presigned::read(&token, &sts(&[]), now()).is_ok());
}

#[test]
fn a_session_of_a_role_is_the_role() {
    let access = [Access::admin("arn:aws:iam::1:role/boss")];
    let user = mapped(&access, "arn:aws:sts::1:assumed-role/boss/me").unwrap();
    assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
    assert_eq!(mapped(&access, "arn:aws:iam::1:user/other"), None);
}

#[rstest]
#[case("arn:aws:iam::1:role/team/boss", "arn:aws:sts::1:assumed-role/boss/me")]
#[case("arn:aws:iam::1:user/me", "arn:aws:sts::1:user/me")]
#[case("arn:aws-cn:iam::1:user/a/me", "arn:aws-cn:iam::1:user/a/me")]
#[case("arn:aws:sts::1:federated-user/me", "arn:aws:sts::1:federated-user/me")]
fn an_identity_is_the_same_however_it_is_spelled(#[case] one: &str, #[case] other: &str) {
    assert_eq!(canonical(one), canonical(other));
}

#[test]
fn a_name_may_hold_the_session() {
    let user = "dev:{{SessionName}}".to_owned();
    let access = Access { arn: "arn:aws:iam::1:role/dev".to_owned(), user, groups: Vec::new() };
    let user = mapped(&[access], "arn:aws:sts::1:assumed-role/dev/me@home").unwrap();
    assert_eq!(user.name, "dev:me-home");
    assert_eq!(user.extra["sessionName"], ["me@home"]);
}

#[test]
fn whoever_is_struck_off_the_list_is_out_at_once() {
    let access = Accesses::from(vec![Access::admin("arn:aws:iam::1:user/me")]);
    let seen_by_the_cluster = access.clone();
    assert!(seen_by_the_cluster.user("arn:aws:iam::1:user/me").is_some());
    access.set(Vec::new());
    assert_eq!(seen_by_the_cluster.user("arn:aws:iam::1:user/me"), None);
}
