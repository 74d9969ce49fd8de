use aws_lc_rs::hmac;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use rstest::rstest;

use super::{
    presigned::{PresignedUrl, TokenError},
    *,
};
use crate::hex::hex;

fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}

const AT: &str = "20270115T080000Z";

fn now() -> Timestamp {
    "2027-01-15T08:00:30Z".parse().unwrap()
}

fn sts(secrets: &[(&str, &str)]) -> StsConfig {
    StsConfig {
        endpoint: "http://127.0.0.1:4566".to_owned(),
        cluster: "shop".to_owned(),
        secrets: secrets.iter().map(|(key, secret)| ((*key).to_owned(), (*secret).to_owned())).collect(),
        ..StsConfig::default()
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
    let empty = hex(Sha256::digest(b""));
    let canonical =
        format!("GET\n/\n{}\nhost:{host}\nx-k8s-aws-id:{cluster}\n\nhost;x-k8s-aws-id\n{empty}", query());
    let text = format!(
        "AWS4-HMAC-SHA256\n{AT}\n20270115/eu-west-1/sts/aws4_request\n{}",
        hex(Sha256::digest(canonical.as_bytes()))
    );
    let mut key = b"AWS4hush".to_vec();
    for part in ["20270115", "eu-west-1", "sts", "aws4_request"] {
        key = hmac_sha256(&key, part.as_bytes());
    }
    token(&format!("https://{host}/?{}&X-Amz-Signature={}", query(), hex(hmac_sha256(&key, text.as_bytes()))))
}

#[test]
fn a_good_token_gives_its_query_and_signed_host() {
    let read = PresignedUrl::parse(&signed("shop"), &sts(&[("AKID", "hush")]), now()).unwrap();
    assert_eq!(read.host, "sts.eu-west-1.amazonaws.com");
    assert!(read.query.starts_with("Action=GetCallerIdentity&"));
}

#[test]
fn a_token_for_another_cluster_has_a_wrong_signature() {
    let refused = PresignedUrl::parse(&signed("other"), &sts(&[("AKID", "hush")]), now());
    assert_eq!(refused, Err(TokenError::InvalidSignature));
    assert!(PresignedUrl::parse(&signed("other"), &sts(&[]), now()).is_ok(), "STS has to find out then");
}

#[test]
fn a_key_that_is_not_known_is_refused_where_others_are() {
    let refused = PresignedUrl::parse(&signed("shop"), &sts(&[("AKOTHER", "hush")]), now());
    assert_eq!(refused, Err(TokenError::UnknownKey));
}

#[rstest]
#[case("https://evil.example/?", "", TokenError::WrongTarget)]
#[case("https://sts.evil.example.amazonaws.com.evil/?", "", TokenError::WrongTarget)]
#[case("https://sts.x/y.amazonaws.com/?", "", TokenError::WrongTarget)]
#[case("https://user@sts.amazonaws.com/?", "", TokenError::WrongTarget)]
#[case("https://sts.amazonaws.com/other?", "", TokenError::WrongTarget)]
#[case("ftp://sts.amazonaws.com/?", "", TokenError::Malformed)]
#[case("https://sts.amazonaws.com/?", "&Foo=bar", TokenError::InvalidParameter)]
#[case("https://sts.amazonaws.com/?", "&action=Other", TokenError::InvalidParameter)]
#[case("https://sts.amazonaws.com/?", "\r\nHost: x", TokenError::Malformed)]
fn a_url_that_is_not_exactly_the_call_is_refused(
    #[case] start: &str,
    #[case] end: &str,
    #[case] why: TokenError,
) {
    let token = token(&format!("{start}{}{end}", query()));
    assert_eq!(PresignedUrl::parse(&token, &sts(&[]), now()), Err(why));
}

#[rstest]
#[case("GetCallerIdentity", "AssumeRole", TokenError::WrongTarget)]
#[case("Expires=60", "Expires=901", TokenError::Expired)]
#[case("Expires=60", "Expires=x", TokenError::InvalidParameter)]
#[case("T080000Z", "T074500Z", TokenError::Expired)]
#[case("T080000Z", "T090000Z", TokenError::Expired)]
#[case("%3Bx-k8s-aws-id", "", TokenError::UnsignedHeader)]
#[case("host%3Bx-k8s-aws-id", "x-k8s-aws-id", TokenError::UnsignedHeader)]
#[case("%2Fsts%2F", "%2Fs3%2F", TokenError::InvalidScope)]
#[case("%2F20270115%2F", "%2F20270114%2F", TokenError::InvalidScope)]
#[case("aws4_request", "aws5_request", TokenError::InvalidScope)]
fn a_query_that_is_not_fresh_and_bound_is_refused(
    #[case] part: &str,
    #[case] by: &str,
    #[case] why: TokenError,
) {
    let token = token(&format!("https://sts.amazonaws.com/?{}", query().replace(part, by)));
    assert_eq!(PresignedUrl::parse(&token, &sts(&[]), now()), Err(why));
}

#[test]
fn the_configured_endpoint_is_a_good_host_too() {
    let token = token(&format!("http://127.0.0.1:4566/?{}", query()));
    assert!(PresignedUrl::parse(&token, &sts(&[]), now()).is_ok());
}

#[test]
fn a_session_of_a_role_is_the_role() {
    let access = [AccessEntry::admin("arn:aws:iam::1:role/boss")];
    let user = map_arn(&access, "arn:aws:sts::1:assumed-role/boss/me").unwrap();
    assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
    assert_eq!(map_arn(&access, "arn:aws:iam::1:user/other"), None);
}

#[rstest]
#[case("arn:aws:iam::1:role/team/boss", "arn:aws:sts::1:assumed-role/boss/me")]
#[case("arn:aws:iam::1:user/me", "arn:aws:sts::1:user/me")]
#[case("arn:aws-cn:iam::1:user/a/me", "arn:aws-cn:iam::1:user/a/me")]
#[case("arn:aws:sts::1:federated-user/me", "arn:aws:sts::1:federated-user/me")]
fn an_identity_is_the_same_however_it_is_spelled(#[case] one: &str, #[case] other: &str) {
    assert_eq!(canonical_arn(one), canonical_arn(other));
}

#[test]
fn a_name_may_hold_the_session() {
    let user = "dev:{{SessionName}}".to_owned();
    let access = AccessEntry { arn: "arn:aws:iam::1:role/dev".to_owned(), user, groups: Vec::new() };
    let user = map_arn(&[access], "arn:aws:sts::1:assumed-role/dev/me@home").unwrap();
    assert_eq!(user.name, "dev:me-home");
    assert_eq!(user.extra["sessionName"], ["me@home"]);
}

#[test]
fn whoever_is_struck_off_the_list_is_out_at_once() {
    let access = AccessEntries::from(vec![AccessEntry::admin("arn:aws:iam::1:user/me")]);
    let seen_by_the_cluster = access.clone();
    assert!(seen_by_the_cluster.user_for_arn("arn:aws:iam::1:user/me").is_some());
    access.set(Vec::new());
    assert_eq!(seen_by_the_cluster.user_for_arn("arn:aws:iam::1:user/me"), None);
}
