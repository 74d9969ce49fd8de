use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Map, Value, json};

use super::*;

fn inline(text: &str) -> Request {
    let source = Source::Inline { format: InlineFormat::Hcl, text: text.to_owned() };
    Request { provider: Some(provider()), ..Request::new("default", "demo-vpc", source) }
}

fn module(files: &[(&str, &str)]) -> Request {
    let files = files.iter().map(|&(name, text)| (name.to_owned(), text.as_bytes().to_vec())).collect();
    Request { provider: Some(provider()), ..Request::new("default", "demo-vpc", Source::Module(files)) }
}

fn remote(address: &str, fetched: Option<&[(&str, &str)]>) -> Request {
    let fetched = fetched
        .map(|files| files.iter().map(|&(name, text)| (name.to_owned(), text.as_bytes().to_vec())).collect());
    let source = Source::Remote { address: address.to_owned(), fetched };
    Request { provider: Some(provider()), ..Request::new("default", "demo-vpc", source) }
}

fn provider() -> ProviderBlock {
    ProviderBlock { region: "eu-west-1".to_owned(), ..ProviderBlock::default() }
}

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn var(key: &str, value: &str) -> Var {
    Var { key: key.to_owned(), value: value.to_owned() }
}

fn text<'a>(rendered: &'a Rendered, path: &str) -> &'a str {
    let contents =
        rendered.files.get(path).unwrap_or_else(|| panic!("no {path} in {:?}", rendered.files.keys()));
    std::str::from_utf8(&contents.bytes).unwrap()
}

fn json_of(rendered: &Rendered, path: &str) -> Value {
    let mut value: Value = serde_json::from_str(text(rendered, path)).unwrap();
    value.as_object_mut().unwrap().remove("//");
    value
}

fn names(rendered: &Rendered) -> Vec<&str> {
    rendered.files.keys().map(String::as_str).collect()
}

const AWS: &str = "resource \"aws_vpc\" \"this\" {}\n";

#[test]
fn a_module_of_ours_is_copied_with_exactly_the_variables_given() {
    let mut request =
        module(&[("main.tf", AWS), ("variables.tf", "variable \"name\" {}\n"), ("README.md", "# vpc")]);
    request.variables =
        map(&json!({"name": "demo", "tags": {"b": "2", "a": "1"}, "azs": ["x"], "nothing": null}));
    let rendered = render(&request).unwrap();
    assert_eq!(
        names(&rendered),
        [
            "README.md",
            "capt_backend.tf.json",
            "capt_provider.tf.json",
            "main.tf",
            "terraform.tfvars.json",
            "variables.tf"
        ]
    );
    assert_eq!(text(&rendered, "main.tf"), AWS);
    assert_eq!(
        text(&rendered, "terraform.tfvars.json"),
        "{\n  \"azs\": [\n    \"x\"\n  ],\n  \"name\": \"demo\",\n  \"nothing\": null,\n  \"tags\": {\n    \"a\": \"1\",\n    \"b\": \"2\"\n  }\n}\n"
    );
    assert_eq!(
        text(&rendered, "capt_backend.tf.json"),
        "{\n  \"//\": \"Written by capt for the workspace default/demo-vpc. Changes are lost.\",\n  \"terraform\": {\n    \"backend\": {\n      \"local\": {\n        \"path\": \"terraform.tfstate\"\n      }\n    }\n  }\n}\n"
    );
    assert_eq!(rendered.backend, EffectiveBackend::Local { path: "terraform.tfstate".to_owned() });
    assert_eq!((rendered.root.as_str(), &rendered.fetch, rendered.types_known), ("", &None, true));
}

#[test]
fn values_are_in_files_that_only_we_can_read() {
    let mut request = module(&[("main.tf", AWS)]);
    request.variables = map(&json!({"a": 1}));
    request.upstream = map(&json!({"vpc_id": "vpc-1"}));
    request.varmap = map(&json!({"b": 2}));
    request.var_files =
        vec![VarFile { origin: "o".to_owned(), format: InlineFormat::Hcl, text: "c = 3\n".to_owned() }];
    let rendered = render(&request).unwrap();
    for (path, contents) in &rendered.files {
        let expected = if path.contains("tfvars") { Mode::Secret } else { Mode::Plain };
        assert_eq!(contents.mode, expected, "{path}");
    }
    assert_eq!(text(&rendered, "upstream.auto.tfvars.json"), "{\n  \"vpc_id\": \"vpc-1\"\n}\n");
    assert_eq!(text(&rendered, "varmap.auto.tfvars.json"), "{\n  \"b\": 2\n}\n");
    assert_eq!(text(&rendered, "varfile-000.auto.tfvars"), "c = 3\n");
}

#[test]
fn var_files_keep_their_order_and_the_varmap_comes_last() {
    let mut request = module(&[("main.tf", AWS)]);
    request.upstream = map(&json!({"z": 1}));
    request.varmap = map(&json!({"z": 1}));
    let file = |i: usize| VarFile {
        origin: i.to_string(),
        format: if i % 2 == 0 { InlineFormat::Hcl } else { InlineFormat::Json },
        text: if i % 2 == 0 { format!("z = {i}\n") } else { json!({"z": i}).to_string() },
    };
    request.var_files = (0..12).map(file).collect();
    let rendered = render(&request).unwrap();
    // Terraform reads them in the order of their names.
    let order: Vec<_> = names(&rendered).into_iter().filter(|name| name.contains(".auto.")).collect();
    assert_eq!(order[0], "upstream.auto.tfvars.json");
    assert_eq!(order[13], "varmap.auto.tfvars.json");
    for (i, name) in order[1..13].iter().enumerate() {
        assert!(text(&rendered, name).contains(&i.to_string()), "{name} is not number {i}");
    }
}

#[test]
fn inline_hcl_and_json_have_their_file_names() {
    assert!(names(&render(&inline(AWS)).unwrap()).contains(&"main.tf"));
    let source = Source::Inline { format: InlineFormat::Json, text: "{\"locals\":{\"a\":1}}".to_owned() };
    let rendered = render(&Request { source, ..inline("") }).unwrap();
    assert_eq!(text(&rendered, "main.tf.json"), "{\"locals\":{\"a\":1}}");
}

// === variables of a user's template ===

const TYPED: &str = r#"
variable "plain" {}
variable "name" { type = string }
variable "count_" { type = number }
variable "on" { type = bool }
variable "old" { type = "string" }
variable "azs" { type = list(string) }
variable "tags" {
  type    = map(string)
  default = {}
}
variable "anything" { type = any }
variable "selectors" {
  type = list(object({ namespace = string, labels = optional(map(string), {}) }))
}
"#;

#[test]
fn vars_have_the_meaning_of_the_command_line() {
    let mut request = inline(TYPED);
    request.vars = vec![
        var("plain", "[1]"),
        var("name", "{\"json\":true}"),
        var("count_", "3"),
        var("on", "true"),
        var("old", "x"),
        var("azs", "[\"a\", \"b\"]"),
        var("tags", "{ k = \"v\", \"a/b\" = \"w\" }"),
        var("anything", "-1.5"),
        var("selectors", "[{\"namespace\": \"kube-system\", \"labels\": {\"k8s-app\": \"kube-dns\"}}]"),
    ];
    let values = json_of(&render(&request).unwrap(), "terraform.tfvars.json");
    assert_eq!(
        values,
        json!({
            "plain": "[1]", "name": "{\"json\":true}", "count_": "3", "on": "true", "old": "x",
            "azs": ["a", "b"], "tags": {"k": "v", "a/b": "w"}, "anything": -1.5,
            "selectors": [{"namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}}],
        })
    );
}

#[test]
fn a_template_in_json_declares_types_too() {
    let text =
        json!({"variable": [{"azs": {"type": "list(string)"}}, {"name": {"type": "string"}, "free": {}}]});
    let source = Source::Inline { format: InlineFormat::Json, text: text.to_string() };
    let mut request = Request { source, ..inline("") };
    request.vars = vec![var("azs", "[\"a\"]"), var("name", "[]"), var("free", "{}")];
    let values = json_of(&render(&request).unwrap(), "terraform.tfvars.json");
    assert_eq!(values, json!({"azs": ["a"], "name": "[]", "free": "{}"}));
}

#[rstest]
#[case("azs", "a,b")]
#[case("azs", "")]
#[case("tags", "{ k = file(\"/etc/passwd\") }")]
#[case("anything", "var.x")]
#[case("azs", "[\"${path.module}\"]")]
fn a_value_that_is_no_literal_is_refused_with_the_type(#[case] name: &str, #[case] value: &str) {
    let mut request = inline(TYPED);
    request.vars = vec![var(name, value)];
    let error = render(&request).unwrap_err();
    assert!(matches!(&error, RenderError::NotLiteral { name: refused, .. } if refused == name), "{error}");
    let ty = if name == "azs" {
        "list(string)"
    } else if name == "tags" {
        "map(string)"
    } else {
        "any"
    };
    assert!(error.to_string().contains(ty), "{error}");
}

#[test]
fn a_var_that_the_template_does_not_declare_is_an_error() {
    let mut request = inline(TYPED);
    request.vars = vec![var("typo", "x")];
    assert_eq!(render(&request), Err(RenderError::Undeclared { name: "typo".to_owned() }));
}

#[test]
fn variables_of_the_controller_are_offered_and_undeclared_ones_dropped() {
    let mut request = inline(TYPED);
    request.variables = map(
        &json!({"name": "from-controller", "plain": "p", "environment": "dev", "azs": "[\"a\"]", "region": "x", "on": true}),
    );
    request.vars = vec![var("name", "from-vars")];
    let rendered = render(&request).unwrap();
    assert_eq!(
        json_of(&rendered, "terraform.tfvars.json"),
        json!({"azs": ["a"], "name": "from-vars", "on": true, "plain": "p"})
    );
    assert_eq!(rendered.dropped, ["environment", "region"]);
}

#[test]
fn no_variables_no_file() {
    assert_eq!(names(&render(&inline("locals { a = 1 }\n")).unwrap()), ["capt_backend.tf.json", "main.tf"]);
}

// === text that does not parse ===

#[rstest]
#[case("resource \"aws_vpc\" \"this\" {\n  cidr =\n}\n", 2)]
#[case("a = 1\nb = \"unclosed\n", 2)]
fn a_template_that_does_not_parse_is_named_with_its_line(#[case] hcl: &str, #[case] at: usize) {
    let error = render(&inline(hcl)).unwrap_err();
    let RenderError::Parse { file, line, .. } = &error else { panic!("{error}") };
    assert_eq!((file.as_str(), *line), ("main.tf", at), "{error}");
}

#[test]
fn json_that_does_not_parse_is_named_with_its_line() {
    for bad in ["{\n\"a\": }", "[1]", ""] {
        let source = Source::Inline { format: InlineFormat::Json, text: bad.to_owned() };
        let error = render(&Request { source, ..inline("") }).unwrap_err();
        assert!(matches!(&error, RenderError::Parse { file, .. } if file == "main.tf.json"), "{error}");
    }
}

#[test]
fn a_var_file_that_does_not_parse_is_named_by_its_origin() {
    for (format, text) in [(InlineFormat::Hcl, "a = [\n"), (InlineFormat::Json, "a = 1")] {
        let mut request = inline("");
        let origin = "Secret default/demo key vpc_config".to_owned();
        request.var_files = vec![VarFile { origin: origin.clone(), format, text: text.to_owned() }];
        let error = render(&request).unwrap_err();
        assert!(error.to_string().starts_with(&origin), "{error}");
    }
}

// === provider and backend ===

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
        assume_role: Some(AssumeRole {
            role_arn: "arn:aws:iam::1:role/r".to_owned(),
            session_name: Some("capt".to_owned()),
            external_id: Some("x${y}".to_owned()),
        }),
        default_tags: [("k${k}".to_owned(), "%{ if }".to_owned())].into(),
        allowed_account_ids: vec!["123456789012".to_owned()],
        ..provider()
    });
    assert_eq!(
        json_of(&render(&request).unwrap(), "capt_provider.tf.json"),
        json!({"provider": {"aws": {
            "allowed_account_ids": ["123456789012"],
            "assume_role": [{"external_id": "x$${y}", "role_arn": "arn:aws:iam::1:role/r", "session_name": "capt"}],
            "default_tags": [{"tags": {"k$${k}": "%%{ if }"}}],
            "region": "eu-west-1",
        }}})
    );
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
    let source = Source::Inline { format: InlineFormat::Json, text: json };
    assert!(render(&Request { source, ..inline("") }).unwrap().files.contains_key("capt_provider.tf.json"));
}

#[rstest]
#[case("terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n  }\n}\n", "s3")]
#[case("terraform {\n  cloud {}\n}\n", "cloud")]
fn a_backend_of_the_template_is_left_alone(#[case] hcl: &str, #[case] kind: &str) {
    let rendered = render(&inline(hcl)).unwrap();
    assert!(!rendered.files.contains_key("capt_backend.tf.json"));
    assert_eq!(rendered.backend, EffectiveBackend::Other { kind: kind.to_owned() });
    let json = json!({"terraform": {"backend": {"kubernetes": {"secret_suffix": "x"}}}}).to_string();
    let source = Source::Inline { format: InlineFormat::Json, text: json };
    let rendered = render(&Request { source, ..inline("") }).unwrap();
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
    assert_eq!(rendered.files["capt_backend.tf.json"].mode, Mode::Secret);
    request.backend = Backend::Other { kind: "s3".to_owned(), settings: map(&json!({"key": "a/${b}"})) };
    assert_eq!(render(&request), Err(RenderError::BackendTemplate { name: "key".to_owned() }));
}

// === remote sources ===

#[test]
fn a_remote_root_is_fetched_and_our_files_go_to_its_entrypoint() {
    let mut request = remote("git::https://example.com/x.git", None);
    request.entrypoint = "/stacks/../prod/".to_owned();
    request.vars = vec![var("azs", "[\"a\"]")];
    let rendered = render(&request).unwrap();
    assert_eq!(rendered.root, "stacks/prod");
    let fetch = rendered.fetch.clone().unwrap();
    assert_eq!(
        (fetch.address.as_str(), fetch.entrypoint.as_str()),
        ("git::https://example.com/x.git", "stacks/prod")
    );
    assert!(!fetch.is_local_path());
    assert_eq!(
        rendered.backend,
        EffectiveBackend::Local { path: "stacks/prod/terraform.tfstate".to_owned() }
    );
    assert!(!rendered.types_known);
    assert_eq!(json_of(&rendered, "stacks/prod/user.auto.tfvars.json"), json!({"azs": "[\"a\"]"}));
}

#[test]
fn a_fetched_remote_root_is_looked_at() {
    let mut request = remote(
        "./modules/x",
        Some(&[("main.tf", TYPED), ("p.tf", "provider \"aws\" {}\n"), ("terraform.tfvars.json", "{}")]),
    );
    request.vars = vec![var("azs", "[\"a\"]")];
    let rendered = render(&request).unwrap();
    assert!(rendered.types_known && rendered.fetch.as_ref().unwrap().is_local_path());
    assert_eq!(json_of(&rendered, "user.auto.tfvars.json"), json!({"azs": ["a"]}));
    assert_eq!(names(&rendered), ["capt_backend.tf.json", "user.auto.tfvars.json"]);
}

#[rstest]
#[case("", "")]
#[case(".", "")]
#[case("a/b", "a/b")]
#[case("../../etc", "etc")]
#[case("....//etc", "etc")]
#[case("./a//b/", "a/b")]
fn an_entrypoint_cannot_leave_the_source(#[case] given: &str, #[case] root: &str) {
    let request = Request { entrypoint: given.to_owned(), ..remote("x", None) };
    assert_eq!(render(&request).unwrap().root, root);
}

#[test]
fn an_entrypoint_that_still_points_upwards_is_refused() {
    for given in ["..", "a/.."] {
        let request = Request { entrypoint: given.to_owned(), ..remote("x", None) };
        assert!(matches!(render(&request), Err(RenderError::BadPath { .. })), "{given}");
    }
}

// === names ===

#[rstest]
#[case("../main.tf")]
#[case("/etc/passwd")]
#[case("a/../../b")]
#[case("")]
#[case("a\\b")]
fn a_file_outside_of_the_workspace_is_refused(#[case] path: &str) {
    assert!(matches!(render(&module(&[(path, "")])), Err(RenderError::BadPath { .. })));
}

#[rstest]
#[case("capt_provider.tf.json")]
#[case("./capt_backend.tf.json")]
#[case("terraform.tfvars.json")]
#[case("varfile-000.auto.tfvars")]
fn a_file_with_the_name_of_ours_is_refused(#[case] path: &str) {
    assert!(matches!(render(&module(&[(path, "{}")])), Err(RenderError::Reserved { .. })));
}

#[test]
fn extra_files_count_as_configuration() {
    let mut request = inline(AWS);
    request.extra = [
        ("aws-creds.ini".to_owned(), Contents::secret(b"[default]".to_vec())),
        ("config.tf".to_owned(), Contents::plain(b"provider \"aws\" {}\n".to_vec())),
    ]
    .into();
    let rendered = render(&request).unwrap();
    assert_eq!(rendered.files["aws-creds.ini"].mode, Mode::Secret);
    assert!(!rendered.files.contains_key("capt_provider.tf.json"));
}

// === digests ===

#[test]
fn the_digest_covers_everything_and_the_init_digest_only_what_init_reads() {
    let base = {
        let mut request = module(&[("main.tf", AWS)]);
        request.variables = map(&json!({"a": 1}));
        request
    };
    let digests = |change: &dyn Fn(&mut Request)| {
        let mut request = base.clone();
        change(&mut request);
        let rendered = render(&request).unwrap();
        (rendered.digest, rendered.init_digest)
    };
    let (all, init) = digests(&|_| {});
    assert_eq!((all.clone(), init.clone()), digests(&|_| {}));
    assert_eq!(all.len(), 64);
    let other_values = digests(&|request| request.variables = map(&json!({"a": 2})));
    assert_ne!(other_values.0, all);
    assert_eq!(other_values.1, init);
    for other in [
        digests(&|request| request.lock_file = Some(b"x".to_vec())),
        digests(&|request| request.backend = Backend::Local { path: "other.tfstate".to_owned() }),
        digests(&|request| request.provider = None),
        digests(&|request| request.source = Source::Module([("main.tf".to_owned(), b"# x".to_vec())].into())),
    ] {
        assert_ne!(other.0, all);
        assert_ne!(other.1, init);
    }
}

#[test]
fn a_lock_file_is_found_wherever_it_comes_from() {
    let mut request = module(&[("main.tf", AWS)]);
    assert!(!render(&request).unwrap().has_lock_file);
    request.lock_file = Some(b"# lock".to_vec());
    let rendered = render(&request).unwrap();
    assert!(rendered.has_lock_file);
    assert_eq!(text(&rendered, ".terraform.lock.hcl"), "# lock");
    assert!(render(&module(&[("main.tf", AWS), (".terraform.lock.hcl", "#")])).unwrap().has_lock_file);
}

#[test]
fn a_request_cannot_be_printed_with_its_values() {
    let mut request = inline(TYPED);
    request.vars = vec![var("name", "canary")];
    request.var_files = vec![VarFile {
        origin: "o".to_owned(),
        format: InlineFormat::Hcl,
        text: "a = \"canary\"".to_owned(),
    }];
    let printed = format!("{:?} {:?} {:?}", request.vars, request.var_files, render(&request).unwrap());
    assert!(!printed.contains("canary"), "{printed}");
}

// === properties ===

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[\"\\\\\n$%{}a]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_comes_back_from_the_tfvars_as_it_went_in(values in proptest::collection::btree_map("[a-z_]{1,8}", any_value(), 1..6)) {
        let mut request = module(&[("main.tf", AWS)]);
        request.variables = map(&json!(values));
        let rendered = render(&request).unwrap();
        prop_assert_eq!(json_of(&rendered, "terraform.tfvars.json"), json!(values));
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(values in proptest::collection::btree_map("[a-z_]{1,8}", any_value(), 1..6)) {
        let mut request = module(&[("main.tf", AWS)]);
        request.variables = map(&json!(values));
        let one = render(&request).unwrap();
        request.variables = values.into_iter().rev().collect();
        prop_assert_eq!(render(&request).unwrap(), one);
    }

    #[test]
    fn no_text_of_a_user_adds_anything_to_the_provider_file(region in any::<String>(), tag in "[\"\\\\\n$%{}a]{0,8}") {
        let mut request = inline(AWS);
        request.provider = Some(ProviderBlock {
            region: region.clone(),
            default_tags: [(tag.clone(), tag.clone())].into(),
            ..ProviderBlock::default()
        });
        let body = json_of(&render(&request).unwrap(), "capt_provider.tf.json")["provider"]["aws"].clone();
        prop_assert_eq!(body.as_object().unwrap().len(), 2);
        let tags = body["default_tags"][0]["tags"].as_object().unwrap();
        for (text, meant) in [(body["region"].as_str().unwrap(), region), (tags.keys().next().unwrap(), tag)] {
            let template: hcl_edit::template::Template = text.parse().unwrap();
            let literal: Option<String> = template.iter().map(|e| e.as_literal().map(|t| t.value().clone())).collect();
            prop_assert_eq!(literal, Some(meant));
        }
    }

    #[test]
    fn no_inline_text_makes_rendering_panic(text in any::<String>(), key in any::<String>(), value in any::<String>()) {
        let mut request = inline(&text);
        request.vars = vec![var(&key, &value)];
        let _ = render(&request);
    }
}
