use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::render::literal;

fn variables(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn inline(module: &str) -> Value {
    json!({"forProvider": {"source": "Inline", "module": module}})
}

fn in_hcl(module: &str, entries: &[(&str, &str)]) -> Result<String, Vec<SubstituteError>> {
    let done =
        substitute_placeholders(&inline(module), &PlaceholderValues::new("demo-vpc", &variables(entries)))?;
    Ok(done["forProvider"]["module"].as_str().unwrap().to_owned())
}

/// The value that an attribute `x` of a parsed text has.
fn attribute(hcl: &str) -> Value {
    let body: hcl_edit::structure::Body = hcl.parse().unwrap_or_else(|error| panic!("{error}\n{hcl}"));
    assert_eq!(body.len(), 1, "{hcl}");
    evaluate(&body.get_attribute("x").unwrap().value)
}

/// Literals, and templates whose interpolations are literals.
fn evaluate(expression: &hcl_edit::expr::Expression) -> Value {
    use hcl_edit::template::Element;
    if let Some(value) = literal::literal_value(expression) {
        return value;
    }
    let elements: Vec<_> = match expression {
        hcl_edit::expr::Expression::StringTemplate(template) => template.iter().collect(),
        hcl_edit::expr::Expression::HeredocTemplate(heredoc) => heredoc.template.iter().collect(),
        other => panic!("{other:?}"),
    };
    let text = elements.into_iter().map(|element| match element {
        Element::Literal(text) => text.value().clone(),
        Element::Interpolation(inner) => {
            literal::literal_value(&inner.expr).unwrap().as_str().unwrap().to_owned()
        }
        Element::Directive(_) => panic!("a directive appeared"),
    });
    Value::from(text.collect::<String>())
}

#[test]
fn the_shipped_templates_get_what_upstream_gives_them() {
    let spec = json!({
        "forProvider": {
            "source": "Inline",
            "module": "variable \"cluster_name\" {}\nlocals { name = \"${var.cluster_name}-x\" }\n",
            "vars": [{"key": "cluster_name", "value": "${cluster_name}"}],
            "varFiles": [{"source": "SecretKey", "secretKeyRef": {"namespace": "default", "name": "${cluster_name}-vpc-vpc-connection", "key": "vpc_config"}}],
        },
        "writeConnectionSecretToRef": {"name": "${WORKSPACE_NAME}-eks-connection", "namespace": "default"},
    });
    let done = substitute_placeholders(
        &spec,
        &PlaceholderValues::new(
            "demo-apply",
            &variables(&[("cluster_name", "demo"), ("environment", "dev")]),
        ),
    );
    let done = done.unwrap();
    assert_eq!(done["forProvider"]["vars"][0]["value"], "demo");
    assert_eq!(done["forProvider"]["varFiles"][0]["secretKeyRef"]["name"], "demo-vpc-vpc-connection");
    assert_eq!(done["writeConnectionSecretToRef"]["name"], "demo-apply-eks-connection");
    assert_eq!(done["forProvider"]["module"], spec["forProvider"]["module"]);
}

#[rstest]
#[case("${a}", "A")]
#[case("x-${a}-${b}", "x-A-B")]
#[case("$${a}", "$${a}")]
#[case("${a}${a}", "AA")]
#[case("${var.a} ${a }", "${var.a} ${a }")]
#[case("$ { ${", "$ { ${")]
#[case("${tags_a/b}", "T")]
#[case("${WORKSPACE_NAME}", "ws")]
#[case("${${a}}", "${A}")]
fn plain_values_are_replaced_once(#[case] text: &str, #[case] expected: &str) {
    let variables =
        variables(&[("a", "A"), ("b", "B"), ("tags_a/b", "T"), ("A", "never"), ("WORKSPACE_NAME", "never")]);
    let done =
        substitute_placeholders(&json!({"v": text}), &PlaceholderValues::new("ws", &variables)).unwrap();
    assert_eq!(done["v"], expected);
}

#[test]
fn a_value_is_never_searched_again() {
    let variables = variables(&[("a", "${b}"), ("b", "${a}")]);
    let done = substitute_placeholders(&json!({"v": "${a} ${b}"}), &PlaceholderValues::new("ws", &variables))
        .unwrap();
    assert_eq!(done["v"], "${b} ${a}");
}

#[test]
fn quotes_and_line_breaks_stay_inside_their_value() {
    let variables = variables(&[("a", "x\", \"source\": \"Remote\n\\")]);
    let done =
        substitute_placeholders(&json!({"v": "${a}", "w": 1}), &PlaceholderValues::new("ws", &variables))
            .unwrap();
    assert_eq!(done, json!({"v": "x\", \"source\": \"Remote\n\\", "w": 1}));
}

#[test]
fn all_unresolved_placeholders_are_named_with_their_place() {
    let spec = json!({"forProvider": {
        "source": "Inline", "module": "x = \"${region} ${region} ${var.ok}\"\n",
        "vars": [{"key": "k", "value": "${cluster_name}"}],
        "env": [{"name": "E", "value": "${HOME}/x"}],
    }});
    let errors = substitute_placeholders(&spec, &PlaceholderValues::new("ws", &BTreeMap::new())).unwrap_err();
    let mut texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    texts.sort();
    assert_eq!(
        texts,
        [
            "forProvider.env[0].value: `${HOME}` is not resolved; add `HOME` to the variables, or write `$${HOME}` if the text itself is meant",
            "forProvider.module: `${region}` is not resolved; add `region` to the variables, or write `$${region}` if the text itself is meant",
            "forProvider.vars[0].value: `${cluster_name}` is not resolved; add `cluster_name` to the variables, or write `$${cluster_name}` if the text itself is meant",
        ]
    );
}

#[rstest]
#[case("x = \"${var.a} ${local.b} ${each.key} ${upper(\"c\")} ${1 + 1} $${d}\"\n")]
#[case("x = [for name in var.names : \"${name}-x\"]\n")]
#[case("x = { for k, v in var.m : \"${k}\" => \"${v}\" }\n")]
#[case("x = \"%{ for s in var.l }${s}%{ endfor }\"\n")]
#[case("# ${comment}\n// ${comment}\n/* ${comment}\n${comment} */\nx = 1\n")]
#[case("x = <<EOT\n${var.a} $${b}\nEOT\n")]
fn expressions_of_terraform_stay(#[case] hcl: &str) {
    assert_eq!(in_hcl(hcl, &[]).unwrap(), hcl);
}

#[rstest]
#[case("x = \"${name}\"\n", "name")]
#[case("x = \"${[for name in var.l : name]} ${name}\"\n", "name")]
#[case("x = <<EOT\n  ${name}\nEOT\n", "name")]
#[case("x = ${name}\n", "name")]
#[case("resource \"aws_vpc\" \"a\" {\n  tags = { Name = \"a-${name}\" }\n}\n", "name")]
#[case("x = \"${upper(\"${name}\")}\"\n", "name")]
fn a_bare_name_that_nothing_declares_is_unresolved(#[case] hcl: &str, #[case] name: &str) {
    let errors = in_hcl(hcl, &[]).unwrap_err();
    assert_eq!(
        errors,
        [SubstituteError::Unresolved { path: "forProvider.module".to_owned(), name: name.to_owned() }]
    );
}

#[test]
fn hcl_gets_upstreams_text_for_ordinary_values() {
    let hcl = "module \"${name}\" {\n  count = ${n}\n  azs = ${azs}\n  cidr = \"${cidr}\"\n  d = <<-EOT\n    ${name}\n  EOT\n}\n";
    let done =
        in_hcl(hcl, &[("name", "demo"), ("n", "2"), ("azs", "[\"a\", \"b\"]"), ("cidr", "10.0.0.0/16")]);
    assert_eq!(
        done.unwrap(),
        "module \"demo\" {\n  count = 2\n  azs = [\"a\", \"b\"]\n  cidr = \"10.0.0.0/16\"\n  d = <<-EOT\n    demo\n  EOT\n}\n"
    );
}

#[rstest]
#[case("10.0.0.0/16")]
#[case("file(\"/etc/passwd\")")]
#[case("1\nresource \"x\" \"y\" {}")]
#[case("1 }")]
#[case("var.secret")]
#[case("")]
fn a_value_outside_of_quotes_has_to_be_a_literal(#[case] value: &str) {
    let errors = in_hcl("x = ${v}\n", &[("v", value)]).unwrap_err();
    assert!(matches!(&errors[0], SubstituteError::NotLiteral { name, .. } if name == "v"), "{errors:?}");
}

#[test]
fn a_neighbour_in_the_text_cannot_complete_a_template() {
    assert_eq!(attribute(&in_hcl("x = \"%${v}\"\n", &[("v", "{ if true }")]).unwrap()), "%{ if true }");
    assert_eq!(attribute(&in_hcl("x = \"${v}{y}\"\n", &[("v", "$")]).unwrap()), "${y}");
    assert_eq!(attribute(&in_hcl("x = <<E\n${v}{y}\nE\n", &[("v", "%")]).unwrap()), "%{y}\n");
    assert_eq!(attribute(&in_hcl("x = \"%${v}{y}\"\n", &[("v", "")]).unwrap()), "%{y}");
}

#[test]
fn a_value_cannot_end_a_heredoc() {
    let done = in_hcl("x = <<EOT\n${v}\nEOT\n", &[("v", "a\nEOT\nresource \"x\" \"y\" {}\n")]).unwrap();
    assert_eq!(attribute(&done), "a\nEOT\nresource \"x\" \"y\" {}\n\n");
}

#[test]
fn braces_and_quotes_inside_interpolations_do_not_confuse_the_scanner() {
    let hcl = "x = \"${join(\",\", [for k in { a = \"}\" } : \"${k}-${v}\"])} ${v}\"\ny = \"\\\"${v}\\\\\"\n";
    let done = in_hcl(hcl, &[("v", "V")]).unwrap();
    assert_eq!(done, hcl.replace("${v}", "V"));
}

#[test]
fn inline_json_is_replaced_in_its_strings() {
    let module =
        json!({"locals": {"a": "${name}-${var.b}", "n": 1}, "output": {"${name}": {"value": "${local.a}"}}});
    let spec =
        |module: &str| json!({"forProvider": {"source": "Inline", "inlineFormat": "JSON", "module": module}});
    let run = |module: &str, value: &str| {
        let variables = variables(&[("name", value)]);
        let done = substitute_placeholders(&spec(module), &PlaceholderValues::new("ws", &variables))?;
        Ok::<_, Vec<SubstituteError>>(done["forProvider"]["module"].as_str().unwrap().to_owned())
    };
    let done: Value = serde_json::from_str(&run(&module.to_string(), "demo").unwrap()).unwrap();
    assert_eq!(
        done,
        json!({"locals": {"a": "demo-${var.b}", "n": 1}, "output": {"demo": {"value": "${local.a}"}}})
    );
    let done: Value = serde_json::from_str(&run(&module.to_string(), "\"${evil}\n").unwrap()).unwrap();
    assert_eq!(done["locals"]["a"], "${\"\\\"\\u0024{evil}\\n\"}-${var.b}");
    assert_eq!(run("{ \"a\" :  1 }", "x").unwrap(), "{ \"a\" :  1 }", "nothing to do: the text stays");
    assert!(matches!(&run("{", "x").unwrap_err()[0], SubstituteError::NotJson { .. }));
    assert!(matches!(&run("{\"a\":\"${b}\"}", "x").unwrap_err()[0], SubstituteError::Unresolved { .. }));
}

#[test]
fn a_remote_address_is_a_plain_value() {
    let spec = json!({"forProvider": {"source": "Remote", "module": "git::https://e.com/${repo}?ref=v1"}});
    let variables = variables(&[("repo", "vpc.git")]);
    let done = substitute_placeholders(&spec, &PlaceholderValues::new("ws", &variables)).unwrap();
    assert_eq!(done["forProvider"]["module"], "git::https://e.com/vpc.git?ref=v1");
}

#[test]
fn keys_are_replaced_and_may_not_collide() {
    let variables = variables(&[("a", "x"), ("b", "x")]);
    let values = PlaceholderValues::new("ws", &variables);
    assert_eq!(substitute_placeholders(&json!({"m": {"${a}": 1}}), &values).unwrap(), json!({"m": {"x": 1}}));
    let errors = substitute_placeholders(&json!({"m": {"${a}": 1, "${b}": 2}}), &values).unwrap_err();
    assert_eq!(errors, [SubstituteError::SameKey { path: "m".to_owned(), key: "x".to_owned() }]);
}

/// What upstream does: text of the whole spec, `WORKSPACE_NAME` first.
fn upstream(spec: &Value, workspace: &str, variables: &BTreeMap<String, String>) -> Value {
    let mut text = spec.to_string().replace("${WORKSPACE_NAME}", workspace);
    for (key, value) in variables {
        text = text.replace(&format!("${{{key}}}"), value);
    }
    serde_json::from_str(&text).unwrap()
}

proptest! {
    #[test]
    fn well_formed_input_gives_upstreams_result(
        a in "[A-Za-z0-9._/:-]{0,20}", b in "[A-Za-z0-9._/:-]{0,20}", ws in "[a-z0-9-]{1,20}",
        pieces in proptest::collection::vec(prop::sample::select(vec!["${a}", "${b}", "${WORKSPACE_NAME}", "x", " - ", "${var.z}"]), 0..8),
    ) {
        let text = pieces.concat();
        let hcl = format!("# {}\nx = \"{text}\"\ny = <<EOT\n{text}\nEOT\n", text.replace("${", "$ {"));
        let spec = json!({"forProvider": {"source": "Inline", "module": hcl, "vars": [{"key": "k", "value": text}]}});
        let variables = variables(&[("a", &a), ("b", &b)]);
        let ours = substitute_placeholders(&spec, &PlaceholderValues::new(&ws, &variables)).unwrap();
        prop_assert_eq!(ours, upstream(&spec, &ws, &variables));
    }

    #[test]
    fn any_value_stays_a_literal_in_hcl(value in any::<String>(), before in "[a-z$%{ ]{0,3}", after in "[a-z{} ]{0,3}") {
        prop_assume!(!before.contains("${") && !before.contains("%{") && !before.ends_with('$'));
        let quoted = in_hcl(&format!("x = \"{before}${{v}}{after}\"\n"), &[("v", &value)]).unwrap();
        prop_assert_eq!(attribute(&quoted), format!("{before}{value}{after}"));
        let heredoc = in_hcl(&format!("x = <<EOT\n{before}${{v}}{after}\nEOT\n"), &[("v", &value)]).unwrap();
        prop_assert_eq!(attribute(&heredoc), format!("{before}{value}{after}\n"));
    }

    #[test]
    fn special_characters_stay_literals_in_hcl(value in "[\"\\\\\n\r\t$%{}aE\u{0}\u{2028}é<>#/*-]{0,12}") {
        let quoted = in_hcl("x = \"${v}\"\n", &[("v", &value)]).unwrap();
        prop_assert_eq!(attribute(&quoted), value);
    }

    #[test]
    fn no_text_stops_the_scanner(text in any::<String>(), value in any::<String>()) {
        let _ = in_hcl(&text, &[("v", &value)]);
    }

    #[test]
    fn without_variables_hcl_is_not_touched(text in "[a-z \n\"{}$%<>E=#/*\\\\]{0,60}") {
        if let Ok(done) = in_hcl(&text, &[]) {
            prop_assert_eq!(done, text);
        }
    }
}
