use std::collections::BTreeSet;

use super::*;

fn local() -> Cloud {
    Cloud::Local { endpoint: "http://127.0.0.1:4599".to_owned() }
}

fn keys(secret: &str) -> PrincipalSource {
    PrincipalSource::Static {
        access_key_id: "AKID".to_owned(),
        secret_access_key: secret.to_owned(),
        session_token: None,
    }
}

fn web() -> PrincipalSource {
    PrincipalSource::WebIdentity {
        role_arn: "arn:aws:iam::1:role/web".to_owned(),
        token_file: "/token".into(),
    }
}

fn hop(role: &str) -> RoleHop {
    RoleHop { role_arn: role.to_owned(), ..RoleHop::default() }
}

fn principal(source: PrincipalSource, hops: &[RoleHop]) -> Principal {
    Principal { source, role_chain: hops.to_vec(), session_name: "capt-shop@default".to_owned() }
}

#[test]
fn nothing_secret_is_printed() {
    let source = PrincipalSource::Static {
        access_key_id: "canary".to_owned(),
        secret_access_key: "canary".to_owned(),
        session_token: Some("canary".to_owned()),
    };
    let hops = [RoleHop { external_id: Some("canary".to_owned()), ..hop("arn:aws:iam::1:role/a") }];
    let text = format!("{:?}", principal(source, &hops));
    assert!(!text.contains("canary") && text.contains("role/a"), "{text}");
}

#[test]
fn every_change_of_who_acts_changes_the_digest() {
    let tagged =
        |key: &str, value: &str| RoleHop { tags: [(key.to_owned(), value.to_owned())].into(), ..hop("a") };
    let long = Duration::from_hours(2);
    let others = [
        Principal::from_default_chain(),
        principal(PrincipalSource::Default, &[]),
        principal(keys("one"), &[]),
        principal(keys("two"), &[]),
        principal(web(), &[]),
        principal(PrincipalSource::Default, &[hop("a")]),
        principal(PrincipalSource::Default, &[hop("b")]),
        principal(PrincipalSource::Default, &[hop("a"), hop("b")]),
        principal(PrincipalSource::Default, &[hop("b"), hop("a")]),
        principal(PrincipalSource::Default, &[RoleHop { external_id: Some("b".to_owned()), ..hop("a") }]),
        principal(PrincipalSource::Default, &[RoleHop { external_id: Some(String::new()), ..hop("a") }]),
        principal(PrincipalSource::Default, &[RoleHop { duration: Some(long), ..hop("a") }]),
        principal(PrincipalSource::Default, &[tagged("k", "vw")]),
        principal(PrincipalSource::Default, &[tagged("kv", "w")]),
    ];
    let digests: BTreeSet<String> = others.iter().map(Principal::digest).collect();
    assert_eq!(digests.len(), others.len());
    assert!(digests.iter().all(|digest| digest.len() == 64 && !digest.contains("one")));
    assert_eq!(principal(keys("one"), &[]).digest(), principal(keys("one"), &[]).digest());
}

#[test]
fn a_session_name_tells_identity_and_namespace() {
    assert_eq!(session_name("shop.prod", "team-a"), "capt-shop.prod@team-a");
}

#[test]
fn a_long_session_name_is_cut_and_hashed() {
    let one = session_name(&"i".repeat(253), &"n".repeat(63));
    let other = session_name(&"i".repeat(253), &format!("{}m", "n".repeat(62)));
    assert_eq!(one.len(), MAX_SESSION_NAME_LEN);
    assert!(one.starts_with("capt-iiiii") && one.contains("@nnnnn"), "{one}");
    assert_ne!(one, other);
    let hash = one.rsplit('=').next().unwrap();
    let forged = session_name(&"i".repeat(25), &format!("{}={hash}", "n".repeat(20)));
    assert_ne!(one, forged, "a hash cannot be written by hand");
}

proptest::proptest! {
    #[test]
    fn a_session_name_is_always_legal_and_stable(identity in ".{0,80}", namespace in ".{0,80}") {
        let name = session_name(&identity, &namespace);
        proptest::prop_assert!((2..=64).contains(&name.len()), "{}", name);
        proptest::prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c)), "{}", name);
        proptest::prop_assert_eq!(name, session_name(&identity, &namespace));
    }

    #[test]
    fn no_two_pairs_share_a_session_name(
        one in ("[a@=-]{0,4}", "[a@=-]{0,4}"),
        other in ("[a@=-]{0,4}", "[a@=-]{0,4}"),
    ) {
        proptest::prop_assert_eq!(one == other, session_name(&one.0, &one.1) == session_name(&other.0, &other.1));
    }
}

#[test]
fn terraform_gets_the_callers_credentials_only_for_the_real_aws() {
    assert_eq!(
        Principal::from_default_chain().terraform_credentials(&Cloud::Real),
        (TerraformCredentials::Inherited, vec![])
    );
    assert_eq!(
        Principal::from_default_chain().terraform_credentials(&local()),
        (TerraformCredentials::None, vec![])
    );
}

#[test]
fn terraform_chains_the_same_roles_under_the_same_session() {
    let hops = [
        RoleHop {
            external_id: Some("word".to_owned()),
            duration: Some(Duration::from_hours(2)),
            tags: [("team".to_owned(), "a".to_owned())].into(),
            ..hop("one")
        },
        RoleHop { duration: Some(Duration::from_hours(2)), ..hop("two") },
    ];
    let (credentials, roles) = principal(keys("s"), &hops).terraform_credentials(&Cloud::Real);
    assert!(
        matches!(credentials, TerraformCredentials::Static { secret_access_key, .. } if secret_access_key == "s")
    );
    let session_name = Some("capt-shop@default".to_owned());
    let one = AssumeRole {
        role_arn: "one".to_owned(),
        session_name: session_name.clone(),
        external_id: Some("word".to_owned()),
        duration_seconds: Some(7200),
        tags: [("team".to_owned(), "a".to_owned())].into(),
    };
    // AWS gives a role that another role assumes an hour at most.
    let two = AssumeRole {
        role_arn: "two".to_owned(),
        session_name,
        duration_seconds: Some(3600),
        ..AssumeRole::default()
    };
    assert_eq!(roles, [one, two]);
}

#[test]
fn a_web_identity_is_exchanged_at_the_real_sts_alone() {
    let who = principal(web(), &[RoleHop { duration: Some(Duration::from_hours(2)), ..hop("two") }]);
    let (credentials, roles) = who.terraform_credentials(&Cloud::Real);
    let expected = TerraformCredentials::WebIdentity {
        role_arn: "arn:aws:iam::1:role/web".to_owned(),
        token_file: "/token".into(),
        session_name: "capt-shop@default".to_owned(),
    };
    assert_eq!(credentials, expected);
    assert_eq!(roles.iter().map(|role| role.duration_seconds).collect::<Vec<_>>(), [Some(3600)]);

    let (credentials, roles) = who.terraform_credentials(&local());
    assert_eq!(credentials, TerraformCredentials::None);
    let arns: Vec<_> = roles.iter().map(|role| role.role_arn.as_str()).collect();
    assert_eq!(arns, ["arn:aws:iam::1:role/web", "two"]);
}
