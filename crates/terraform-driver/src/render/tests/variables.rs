use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::json;

use super::{super::*, *};

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
    let source = RootSource::Inline { format: InlineFormat::Json, text: text.to_string() };
    let mut request = RenderRequest { source, ..inline("") };
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
    assert_eq!(rendered.undeclared, ["environment", "region"]);
}

#[test]
fn no_variables_no_file() {
    assert_eq!(names(&render(&inline("locals { a = 1 }\n")).unwrap()), ["capt_backend.tf.json", "main.tf"]);
}

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
        let source = RootSource::Inline { format: InlineFormat::Json, text: bad.to_owned() };
        let error = render(&RenderRequest { source, ..inline("") }).unwrap_err();
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
