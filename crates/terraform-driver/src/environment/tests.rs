use pretty_assertions::assert_eq;
use rstest::rstest;

use super::*;

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn build(
    outer: &[(&str, &str)],
    credentials: TerraformCredentials,
    template: &[(&str, &str)],
) -> Result<Environment, EnvironmentError> {
    let template: Vec<_> =
        template.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let inputs = EnvironmentInputs {
        cli_config: Path::new("/d/cli.tfrc"),
        home: Path::new("/d/home"),
        tmp: Path::new("/d/tmp"),
        credentials,
        template: &template,
    };
    Environment::build(&map(outer), &inputs)
}

const OURS: [(&str, &str); 8] = [
    ("AWS_EC2_METADATA_DISABLED", "true"),
    ("CHECKPOINT_DISABLE", "1"),
    ("GOGC", "400"),
    ("HOME", "/d/home"),
    ("TF_CLI_CONFIG_FILE", "/d/cli.tfrc"),
    ("TF_INPUT", "0"),
    ("TF_IN_AUTOMATION", "1"),
    ("TMPDIR", "/d/tmp"),
];

#[test]
fn an_empty_environment_holds_what_we_set_and_a_path() {
    let environment = build(&[], TerraformCredentials::None, &[]).unwrap();
    let mut expected = map(&OURS);
    expected.insert("PATH".to_owned(), DEFAULT_PATH.to_owned());
    assert_eq!(*environment.variables(), expected);
}

#[test]
fn only_the_allow_list_passes() {
    let outer = [
        ("PATH", "/bin"),
        ("HTTPS_PROXY", "http://proxy:3128"),
        ("no_proxy", "localhost"),
        ("SSL_CERT_FILE", "/etc/ca.pem"),
        ("HOME", "/home/me"),
        ("KUBECONFIG", "/home/me/.kube/config"),
        ("AWS_SECRET_ACCESS_KEY", "canary"),
        ("GITHUB_TOKEN", "canary"),
        ("LD_PRELOAD", "/tmp/x.so"),
    ];
    let environment = build(&outer, TerraformCredentials::None, &[]).unwrap();
    let mut expected = map(&OURS);
    expected.extend(map(&outer[..4]));
    assert_eq!(*environment.variables(), expected);
}

#[test]
fn variables_that_steer_terraform_are_left_out_and_reported() {
    let outer = [
        ("TF_CLI_ARGS_plan", "-lock=false"),
        ("TF_CLI_CONFIG_FILE", "/gone"),
        ("TF_DATA_DIR", "/x"),
        ("TF_LOG", "TRACE"),
        ("TF_LOG_PROVIDER", "TRACE"),
        ("TF_VAR_region", "x"),
        ("TF_WORKSPACE", "prod"),
        ("AWS_CA_BUNDLE", "/etc/ca.pem"),
    ];
    let environment = build(&outer, TerraformCredentials::Inherited, &[]).unwrap();
    assert_eq!(environment.variables()["TF_CLI_CONFIG_FILE"], "/d/cli.tfrc");
    for (name, _) in outer {
        assert!(environment.ignored().contains(&name.to_owned()), "{name}");
        assert!(name == "TF_CLI_CONFIG_FILE" || !environment.variables().contains_key(name), "{name}");
    }
}

#[test]
fn outer_credentials_come_without_the_ca_bundle_and_without_redirections() {
    let outer = [
        ("AWS_PROFILE", "prod"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token"),
        ("AWS_CA_BUNDLE", "/etc/ca.pem"),
        ("AWS_ENDPOINT_URL", "http://localhost:1"),
        ("AWS_ENDPOINT_URL_S3", "http://localhost:1"),
    ];
    let variables = build(&outer, TerraformCredentials::Inherited, &[]).unwrap().variables().clone();
    let aws: Vec<_> = variables.keys().filter(|name| name.starts_with("AWS_")).collect();
    assert_eq!(aws, ["AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"]);
}

#[test]
fn static_credentials_are_the_only_ones() {
    let credentials = TerraformCredentials::Static {
        access_key_id: "AK".to_owned(),
        secret_access_key: "SK".to_owned(),
        session_token: Some("T".to_owned()),
    };
    let variables = build(&[("AWS_PROFILE", "prod")], credentials, &[]).unwrap().variables().clone();
    assert_eq!(variables["AWS_ACCESS_KEY_ID"], "AK");
    assert_eq!(variables["AWS_SECRET_ACCESS_KEY"], "SK");
    assert_eq!(variables["AWS_SESSION_TOKEN"], "T");
    assert_eq!(variables["AWS_EC2_METADATA_DISABLED"], "true");
    assert!(!variables.contains_key("AWS_PROFILE"));
}

#[test]
fn a_web_identity_sets_its_three_variables_and_nothing_else_of_aws() {
    let credentials = TerraformCredentials::WebIdentity {
        role_arn: "arn:aws:iam::123456789012:role/capt".to_owned(),
        token_file: "/var/run/secrets/token".into(),
        session_name: "capt-shop@default".to_owned(),
    };
    let outer =
        [("AWS_PROFILE", "prod"), ("AWS_ACCESS_KEY_ID", "canary"), ("AWS_ROLE_SESSION_NAME", "canary")];
    let variables = build(&outer, credentials, &[]).unwrap().variables().clone();
    let aws: Vec<_> = variables
        .iter()
        .filter(|(name, _)| name.starts_with("AWS_"))
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let expected = [
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/capt"),
        ("AWS_ROLE_SESSION_NAME", "capt-shop@default"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/secrets/token"),
    ];
    assert_eq!(aws, expected);
}

#[rstest]
#[case(&[("AWS_ACCESS_KEY_ID", "AK"), ("AWS_SECRET_ACCESS_KEY", "SK")], Some("true"))]
#[case(&[("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token")], Some("true"))]
#[case(&[("AWS_ACCESS_KEY_ID", "AK"), ("AWS_EC2_METADATA_DISABLED", "false")], Some("false"))]
#[case(&[("AWS_PROFILE", "of-the-instance"), ("AWS_ACCESS_KEY_ID", "AK")], None)]
#[case(&[], None)]
fn instance_metadata_is_for_an_identity_that_may_need_it(
    #[case] outer: &[(&str, &str)],
    #[case] switch: Option<&str>,
) {
    let environment = build(outer, TerraformCredentials::Inherited, &[]).unwrap();
    let found = environment.variables().get("AWS_EC2_METADATA_DISABLED").map(String::as_str);
    assert_eq!(found, switch);
}

#[test]
fn an_endpoint_applies_unless_the_template_has_its_own() {
    let endpoint = |template: &[(&str, &str)]| {
        let built = build(&[], TerraformCredentials::None, template).unwrap();
        built.with_aws_endpoint("http://local").variables()["AWS_ENDPOINT_URL"].clone()
    };
    assert_eq!(endpoint(&[]), "http://local");
    assert_eq!(endpoint(&[("AWS_ENDPOINT_URL", "http://own")]), "http://own");
}

#[test]
fn credentials_are_printed_without_their_secrets() {
    let keys = TerraformCredentials::Static {
        access_key_id: "canary".to_owned(),
        secret_access_key: "canary".to_owned(),
        session_token: Some("canary".to_owned()),
    };
    assert_eq!(format!("{keys:?}"), "Static(..)");
}

#[test]
fn a_template_may_set_its_own_variables() {
    let variables = build(
        &[],
        TerraformCredentials::None,
        &[("HELM_REPOSITORY_CACHE", "/tmp/helm"), ("AWS_REGION", "eu-west-1")],
    )
    .unwrap()
    .variables()
    .clone();
    assert_eq!(variables["HELM_REPOSITORY_CACHE"], "/tmp/helm");
    assert_eq!(variables["AWS_REGION"], "eu-west-1");
}

#[rstest]
#[case("TF_CLI_ARGS")]
#[case("TF_CLI_ARGS_apply")]
#[case("TF_VAR_cluster_name")]
#[case("TF_WORKSPACE")]
#[case("TF_DATA_DIR")]
#[case("TF_LOG")]
#[case("TF_LOG_PATH")]
#[case("TF_CLI_CONFIG_FILE")]
#[case("TF_PLUGIN_CACHE_DIR")]
#[case("TF_REATTACH_PROVIDERS")]
#[case("TF_INPUT")]
#[case("HOME")]
#[case("LD_PRELOAD")]
fn a_template_that_steers_terraform_is_refused_by_name(#[case] name: &str) {
    let error = build(&[], TerraformCredentials::None, &[(name, "canary")]).unwrap_err();
    assert!(matches!(&error, EnvironmentError::Refused { name: refused, .. } if refused == name), "{error}");
    assert!(error.to_string().contains(name) && !error.to_string().contains("canary"), "{error}");
}

#[test]
fn names_and_values_that_no_environment_can_hold_are_refused() {
    for name in ["", "A=B", "A\0"] {
        assert!(matches!(
            build(&[], TerraformCredentials::None, &[(name, "x")]),
            Err(EnvironmentError::BadName { .. })
        ));
    }
    assert!(matches!(
        build(&[], TerraformCredentials::None, &[("A", "x\0")]),
        Err(EnvironmentError::BadValue { .. })
    ));
}
