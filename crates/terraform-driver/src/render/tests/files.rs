use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::json;

use super::{super::*, *};

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
    request.upstream_outputs = map(&json!({"vpc_id": "vpc-1"}));
    request.varmap = map(&json!({"b": 2}));
    request.var_files =
        vec![VarFile { origin: "o".to_owned(), format: InlineFormat::Hcl, text: "c = 3\n".to_owned() }];
    let rendered = render(&request).unwrap();
    for (path, contents) in &rendered.files {
        let expected = if path.contains("tfvars") { FileMode::Secret } else { FileMode::Plain };
        assert_eq!(contents.mode, expected, "{path}");
    }
    assert_eq!(text(&rendered, "upstream.auto.tfvars.json"), "{\n  \"vpc_id\": \"vpc-1\"\n}\n");
    assert_eq!(text(&rendered, "varmap.auto.tfvars.json"), "{\n  \"b\": 2\n}\n");
    assert_eq!(text(&rendered, "varfile-000.auto.tfvars"), "c = 3\n");
}

#[test]
fn var_files_keep_their_order_and_the_varmap_comes_last() {
    let mut request = module(&[("main.tf", AWS)]);
    request.upstream_outputs = map(&json!({"z": 1}));
    request.varmap = map(&json!({"z": 1}));
    let file = |i: usize| VarFile {
        origin: i.to_string(),
        format: if i.is_multiple_of(2) { InlineFormat::Hcl } else { InlineFormat::Json },
        text: if i.is_multiple_of(2) { format!("z = {i}\n") } else { json!({"z": i}).to_string() },
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
    let source = RootSource::Inline { format: InlineFormat::Json, text: "{\"locals\":{\"a\":1}}".to_owned() };
    let rendered = render(&RenderRequest { source, ..inline("") }).unwrap();
    assert_eq!(text(&rendered, "main.tf.json"), "{\"locals\":{\"a\":1}}");
}

#[test]
fn a_remote_root_is_fetched_and_our_files_go_to_its_entrypoint() {
    let mut request = remote("git::https://example.com/x.git", None);
    request.entrypoint = "/stacks/../prod/".to_owned();
    request.vars = vec![var("azs", "[\"a\"]")];
    let rendered = render(&request).unwrap();
    assert_eq!(rendered.root, "stacks/prod");
    let fetch = rendered.fetch.clone().unwrap();
    assert_eq!(
        (fetch.source.address(), fetch.entrypoint.as_str()),
        ("git::https://example.com/x.git", "stacks/prod")
    );
    assert_eq!(fetch.source.directory(), None);
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
    assert!(rendered.types_known && rendered.fetch.as_ref().unwrap().source.directory().is_some());
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
    let request = RenderRequest { entrypoint: given.to_owned(), ..remote("./x", None) };
    assert_eq!(render(&request).unwrap().root, root);
}

#[test]
fn an_entrypoint_that_still_points_upwards_is_refused() {
    for given in ["..", "a/.."] {
        let request = RenderRequest { entrypoint: given.to_owned(), ..remote("./x", None) };
        assert!(matches!(render(&request), Err(RenderError::BadPath { .. })), "{given}");
    }
}

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
    request.extra_files = [
        ("aws-creds.ini".to_owned(), FileContents::secret(b"[default]".to_vec())),
        ("config.tf".to_owned(), FileContents::plain(b"provider \"aws\" {}\n".to_vec())),
    ]
    .into();
    let rendered = render(&request).unwrap();
    assert_eq!(rendered.files["aws-creds.ini"].mode, FileMode::Secret);
    assert!(!rendered.files.contains_key("capt_provider.tf.json"));
}

#[test]
fn the_digest_covers_everything_and_the_init_digest_only_what_init_reads() {
    let base = {
        let mut request = module(&[("main.tf", AWS)]);
        request.variables = map(&json!({"a": 1}));
        request
    };
    let digests = |change: &dyn Fn(&mut RenderRequest)| {
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
        digests(&|request| {
            request.source = RootSource::Module([("main.tf".to_owned(), b"# x".to_vec())].into());
        }),
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
