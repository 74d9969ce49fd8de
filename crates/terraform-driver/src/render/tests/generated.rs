use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};

use super::{super::*, *};

#[test]
fn the_real_provider_block_holds_the_region_and_nothing_that_was_not_asked_for() {
    let rendered = render(&inline(AWS)).unwrap();
    assert_eq!(
        json_of(&rendered, "capt_provider.tf.json"),
        json!({"provider": {"aws": {"region": "eu-west-1"}}})
    );
}

#[test]
fn a_role_tags_and_accounts_are_written_with_templates_escaped() {
    let mut request = inline(AWS);
    request.provider = Some(ProviderBlock {
        assume_roles: vec![AssumeRole {
            role_arn: "arn:aws:iam::1:role/r".to_owned(),
            session_name: Some("capt".to_owned()),
            external_id: Some("x${y}".to_owned()),
            duration_seconds: Some(900),
            tags: [("t${t}".to_owned(), "${u}".to_owned())].into(),
        }],
        default_tags: [("k${k}".to_owned(), "%{ if }".to_owned())].into(),
        allowed_account_ids: vec!["123456789012".to_owned()],
        ..provider()
    });
    assert_eq!(
        json_of(&render(&request).unwrap(), "capt_provider.tf.json"),
        json!({"provider": {"aws": {
            "allowed_account_ids": ["123456789012"],
            "assume_role": [{
                "duration": "900s",
                "external_id": "x$${y}",
                "role_arn": "arn:aws:iam::1:role/r",
                "session_name": "capt",
                "tags": {"t$${t}": "$${u}"},
            }],
            "default_tags": [{"tags": {"k$${k}": "%%{ if }"}}],
            "region": "eu-west-1",
        }}})
    );
}

#[test]
fn roles_are_chained_in_their_order_with_nothing_that_was_not_asked_for() {
    let role = |name: &str| AssumeRole { role_arn: name.to_owned(), ..AssumeRole::default() };
    let mut request = inline(AWS);
    request.provider = Some(ProviderBlock { assume_roles: vec![role("z"), role("a")], ..provider() });
    let body = json_of(&render(&request).unwrap(), "capt_provider.tf.json")["provider"]["aws"].clone();
    assert_eq!(body["assume_role"], json!([{"role_arn": "z"}, {"role_arn": "a"}]));
}

#[test]
fn the_provider_block_is_the_same_for_all_workspaces_of_an_identity() {
    let with = |source: RenderRequest, name: &str| {
        let role = AssumeRole { role_arn: "r".to_owned(), ..AssumeRole::default() };
        let provider = Some(ProviderBlock { assume_roles: vec![role], ..provider() });
        let request = RenderRequest { provider, name: name.to_owned(), ..source };
        json_of(&render(&request).unwrap(), "capt_provider.tf.json").to_string()
    };
    let one = with(inline(AWS), "demo-vpc");
    assert_eq!(one, with(module(&[("main.tf", AWS)]), "demo-eks-controlplane-apply"));
}

#[test]
fn keys_of_the_environment_are_not_hidden_by_those_of_the_local_aws() {
    let mut request = inline(&format!("{AWS}provider \"aws\" {{\n  alias = \"b\"\n}}\n"));
    let local = Some(LocalEndpoint { url: "http://127.0.0.1:4566".to_owned() });
    request.provider = Some(ProviderBlock { local, keys_from_environment: true, ..provider() });
    let rendered = render(&request).unwrap();
    let ours = json_of(&rendered, "capt_provider.tf.json")["provider"]["aws"].clone();
    let theirs = json_of(&rendered, "capt_provider_override.tf.json")["provider"]["aws"][0].clone();
    for body in [ours, theirs] {
        assert_eq!(body["endpoints"][0]["sts"], "http://127.0.0.1:4566");
        assert!(body.get("access_key").is_none() && body.get("secret_key").is_none(), "{body}");
    }
}

#[test]
fn the_local_provider_reaches_nothing_but_the_local_address() {
    let mut request = inline(AWS);
    let local = Some(LocalEndpoint { url: "http://127.0.0.1:4566".to_owned() });
    request.provider = Some(ProviderBlock { local, ..provider() });
    let body = json_of(&render(&request).unwrap(), "capt_provider.tf.json")["provider"]["aws"].clone();
    assert_eq!(body["access_key"], "test");
    assert_eq!(body["skip_credentials_validation"], true);
    assert_eq!(body["s3_use_path_style"], true);
    for service in ["ec2", "eks", "iam", "kms", "logs", "s3", "sts"] {
        assert_eq!(body["endpoints"][0][service], "http://127.0.0.1:4566");
    }
}

#[rstest]
#[case("provider \"aws\" {\n  region = \"us-east-1\"\n}\n", false)]
#[case("provider \"aws\" {\n  alias = \"other\"\n}\n", true)]
#[case("terraform {\n  required_providers {\n    aws = { source = \"hashicorp/aws\" }\n  }\n}\n", true)]
fn a_provider_block_of_the_template_is_not_doubled(#[case] more: &str, #[case] ours: bool) {
    let rendered = render(&inline(&format!("{AWS}{more}"))).unwrap();
    assert_eq!(rendered.files.contains_key("capt_provider.tf.json"), ours);
    assert!(!rendered.files.contains_key("capt_provider_override.tf.json"));
}

#[test]
fn provider_blocks_of_the_template_are_sent_to_the_local_aws_too() {
    let mut request = inline(
        "provider \"aws\" {}\nprovider \"aws\" {\n  alias = \"b\"\n}\nprovider \"aws\" {\n  alias = \"a\"\n}\n",
    );
    let local = Some(LocalEndpoint { url: "http://127.0.0.1:1".to_owned() });
    request.provider = Some(ProviderBlock { local, ..provider() });
    let rendered = render(&request).unwrap();
    assert!(!rendered.files.contains_key("capt_provider.tf.json"));
    let blocks = json_of(&rendered, "capt_provider_override.tf.json")["provider"]["aws"].clone();
    let aliases: Vec<_> = blocks.as_array().unwrap().iter().map(|block| block["alias"].clone()).collect();
    assert_eq!(aliases, [Value::Null, json!("a"), json!("b")]);
    assert_eq!(blocks[1]["endpoints"][0]["eks"], "http://127.0.0.1:1");
    assert!(blocks[0].get("region").is_none(), "the template's own region stays");
}

#[test]
fn a_root_that_does_not_use_aws_gets_no_provider() {
    let rendered = render(&inline("resource \"terraform_data\" \"a\" {}\n")).unwrap();
    assert!(!rendered.files.contains_key("capt_provider.tf.json"));
    let with_module = render(&inline("module \"m\" {\n  source = \"./m\"\n}\n")).unwrap();
    assert!(
        with_module.files.contains_key("capt_provider.tf.json"),
        "nobody has looked inside of the module"
    );
    let json = json!({"data": {"aws_region": {"here": {}}}}).to_string();
    let source = RootSource::Inline { format: InlineFormat::Json, text: json };
    assert!(
        render(&RenderRequest { source, ..inline("") }).unwrap().files.contains_key("capt_provider.tf.json")
    );
}

#[rstest]
#[case("terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n  }\n}\n", "s3")]
#[case("terraform {\n  cloud {}\n}\n", "cloud")]
fn a_backend_of_the_template_is_left_alone(#[case] hcl: &str, #[case] kind: &str) {
    let rendered = render(&inline(hcl)).unwrap();
    assert!(!rendered.files.contains_key("capt_backend.tf.json"));
    assert_eq!(rendered.backend, EffectiveBackend::Other { kind: kind.to_owned() });
    let json = json!({"terraform": {"backend": {"kubernetes": {"secret_suffix": "x"}}}}).to_string();
    let source = RootSource::Inline { format: InlineFormat::Json, text: json };
    let rendered = render(&RenderRequest { source, ..inline("") }).unwrap();
    assert_eq!(rendered.backend, EffectiveBackend::Other { kind: "kubernetes".to_owned() });
}

#[test]
fn a_configured_backend_is_passed_through_and_kept_private() {
    let mut request = inline(AWS);
    request.backend = Backend::Other {
        kind: "s3".to_owned(),
        settings: map(&json!({"bucket": "b", "use_lockfile": true})),
    };
    let rendered = render(&request).unwrap();
    assert_eq!(
        json_of(&rendered, "capt_backend.tf.json"),
        json!({"terraform": {"backend": {"s3": {"bucket": "b", "use_lockfile": true}}}})
    );
    assert_eq!(rendered.files["capt_backend.tf.json"].mode, FileMode::Secret);
    request.backend = Backend::Other { kind: "s3".to_owned(), settings: map(&json!({"key": "a/${b}"})) };
    assert_eq!(render(&request), Err(RenderError::BackendTemplate { name: "key".to_owned() }));
}

#[test]
fn a_configuration_that_only_mentions_aws_resources_is_bound_to_its_provider() {
    for text in [
        "removed {\n  from = aws_vpc.old\n  lifecycle {\n    destroy = true\n  }\n}",
        "import {\n  to = aws_vpc.this\n  id = \"vpc-1\"\n}",
        "moved {\n  from = aws_vpc.old\n  to = aws_vpc.new\n}",
        "check \"there\" {\n  data \"aws_vpc\" \"it\" {}\n}",
    ] {
        let rendered = render(&inline(text)).unwrap();
        assert!(rendered.files.contains_key("capt_provider.tf.json"), "{text}");
    }
    let mut json = inline("");
    json.source = RootSource::Inline {
        format: InlineFormat::Json,
        text: r#"{"removed": [{"from": "aws_vpc.old"}]}"#.to_owned(),
    };
    assert!(render(&json).unwrap().files.contains_key("capt_provider.tf.json"));
}

#[test]
fn a_state_with_aws_resources_is_bound_to_its_provider() {
    let mut request = inline("resource \"terraform_data\" \"one\" {}");
    assert!(!render(&request).unwrap().files.contains_key("capt_provider.tf.json"));
    request.state_uses_aws = true;
    assert!(render(&request).unwrap().files.contains_key("capt_provider.tf.json"));
}
