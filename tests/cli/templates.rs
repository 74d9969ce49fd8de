//! What users bring as Terraform: texts that do not parse, placeholders, and values that look like code.

use serde_json::{Value, json};

use super::harness::{CliHarness, QUICKSTART};

/// A template with this text and these variables of the object that applies it.
fn template(module: &str, more: &str, variables: &Value) -> String {
    let module: Vec<String> = module.lines().map(|line| format!("          {line}\n")).collect();
    let module = module.concat();
    format!(
        "\
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {{name: notes}}
spec:
  template:
    spec:
      forProvider:
        source: Inline
{more}
        module: |
{module}---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {{name: mine}}
spec:
  templateRef: {{name: notes}}
  variables: {variables}
"
    )
}

const NOTE_VARIABLE: &str = "variable \"note\" { type = string }";

/// The template is refused beside a good cluster of which nothing is written either, and the same command works
/// once the template is right.
#[track_caller]
fn assert_refused(bad: &str, texts: &[&str]) {
    let ground = CliHarness::new();
    ground.write("cluster.yaml", QUICKSTART);
    ground.write("notes.yaml", bad);
    let render = || ground.capt(&["render", "cluster.yaml", "notes.yaml", "-o", "out"]).run();
    render().assert_refused(&[&["notes.yaml: "], texts].concat());
    assert!(!ground.has("out"), "a refused template left something behind");
    ground
        .write("notes.yaml", template(NOTE_VARIABLE, "        vars: [{key: note, value: fine}]", &json!({})));
    render().assert_success();
    assert!(ground.has("out/default/mine/main.tf") && ground.has("out/default/demo-vpc/main.tf"));
}

fn render_template(text: &str) -> (CliHarness, Value) {
    let ground = CliHarness::new();
    ground.write("demo.yaml", text);
    ground.render().assert_success();
    let values = serde_json::from_str(&ground.read("out/default/mine/terraform.tfvars.json")).unwrap();
    (ground, values)
}

#[test]
fn hcl_that_does_not_parse_is_refused_with_its_place() {
    assert_refused(
        &template("locals {\n  a = [1,\n}", "", &json!({})),
        &[
            "WorkspaceTemplate",
            "default/mine",
            "forProvider.module, line 3",
            "correct the configuration there",
        ],
    );
}

#[test]
fn json_that_does_not_parse_is_refused() {
    assert_refused(
        &template("locals {}", "        inlineFormat: JSON", &json!({})),
        &["WorkspaceTemplate default/notes", "forProvider.module", "not valid JSON", "inlineFormat"],
    );
}

#[test]
fn a_template_that_does_not_parse_stops_plan_and_apply_before_anything_runs() {
    for command in ["plan", "apply"] {
        let ground = CliHarness::new();
        ground.write("notes.yaml", template("locals {", "", &json!({})));
        let said = ground.capt_with_engine(&[command, "notes.yaml", "--data", "data"]).run();
        said.assert_refused(&["notes.yaml", "forProvider.module, line 1"]);
        assert!(!ground.has("engine-ran") && !ground.has("data"));
    }
}

#[test]
fn a_placeholder_that_nobody_resolves_is_refused() {
    let vars = "        vars: [{key: note, value: 'a ${x} b'}]";
    assert_refused(
        &template(NOTE_VARIABLE, vars, &json!({"y": "1"})),
        &[
            "WorkspaceTemplate default/notes",
            "forProvider.vars[0].value",
            "`${x}` is not resolved",
            "add `x`",
        ],
    );
    assert_refused(
        &template("output \"note\" { value = \"${x}\" }", "", &json!({})),
        &["forProvider.module", "`${x}` is not resolved", "write `$${x}` if the text itself is meant"],
    );
}

#[test]
fn a_value_for_a_variable_that_nobody_declares_is_refused() {
    assert_refused(
        &template(NOTE_VARIABLE, "        vars: [{key: nota, value: x}]", &json!({})),
        &["default/mine", "forProvider.vars", "declares no variable `nota`", "add a `variable` block"],
    );
}

#[test]
fn a_value_that_is_not_of_the_variables_type_is_refused() {
    assert_refused(
        &template(
            "variable \"notes\" { type = list(string) }",
            "        vars: [{key: notes, value: x}]",
            &json!({}),
        ),
        &["default/mine", "forProvider.vars", "`notes`", "list(string)", "such as"],
    );
}

#[test]
fn a_reference_to_a_template_that_is_not_there_is_refused() {
    let text = template(NOTE_VARIABLE, "", &json!({}));
    assert_refused(
        &text.replace("templateRef: {name: notes}", "templateRef: {name: nota}"),
        &[
            "WorkspaceTemplateApply default/mine",
            "spec.templateRef",
            "default/nota is not in the manifests",
            "add it",
        ],
    );
}

#[test]
fn a_module_directory_that_is_not_there_is_named() {
    let text = template(NOTE_VARIABLE, "", &json!({})).replace("source: Inline", "source: Remote");
    let (text, _) = text.split_once("        module: |").unwrap();
    let apply = template(NOTE_VARIABLE, "", &json!({}));
    let (_, apply) = apply.split_once("---").unwrap();
    let bad = format!("{text}        module: ./nowhere\n---{apply}");
    let ground = CliHarness::new();
    ground.write("demo.yaml", bad);
    ground.render().assert_refused(&[
        "demo.yaml",
        "default/mine",
        "forProvider.module",
        "./nowhere",
        "correct it",
    ]);
    ground.write("nowhere/main.tf", NOTE_VARIABLE);
    ground.render().assert_success();
}

#[test]
fn a_module_that_only_terraform_can_fetch_is_refused_by_render() {
    let text = template("git::https://example.invalid/notes.git", "", &json!({}));
    let ground = CliHarness::new();
    ground.write(
        "demo.yaml",
        text.replace("source: Inline", "source: Remote").replace("module: |", "module: >-"),
    );
    ground.render().assert_refused(&[
        "demo.yaml",
        "default/mine",
        "git::https://example.invalid/notes.git",
        "`capt plan`",
    ]);
}

const HOSTILE_VALUES: [&str; 6] = [
    "say \"hello\"",
    "two\nlines\tand a tab",
    "${path.module} and %{ if true }x%{ endif }",
    "back\\slash \\n \\u0041",
    "'; DROP TABLE notes; -- $(id) `id`",
    "}\n\nresource \"null_resource\" \"x\" {",
];

#[test]
fn quotes_newlines_and_interpolations_in_variables_survive_as_literals() {
    for nasty in HOSTILE_VALUES {
        let text =
            template(NOTE_VARIABLE, "        vars: [{key: note, value: '<${it}>'}]", &json!({ "it": nasty }));
        let (ground, values) = render_template(&text);
        assert_eq!(values, json!({ "note": format!("<{nasty}>") }));
        assert_eq!(ground.read("out/default/mine/main.tf").trim(), NOTE_VARIABLE, "a value is not code");
    }
}

#[test]
fn quotes_newlines_and_interpolations_in_a_varmap_survive_as_literals() {
    for nasty in HOSTILE_VALUES {
        let varmap = json!({ "note": "${it}", "deep": { "list": ["${it}"] } });
        let text = template(
            "variable \"note\" {}\nvariable \"deep\" {}",
            &format!("        varmap: {varmap}"),
            &json!({ "it": nasty }),
        );
        let ground = CliHarness::new();
        ground.write("demo.yaml", text);
        ground.render().assert_success();
        let values: Value =
            serde_json::from_str(&ground.read("out/default/mine/varmap.auto.tfvars.json")).unwrap();
        assert_eq!(values, json!({ "note": nasty, "deep": { "list": [nasty] } }));
    }
}

#[test]
fn quotes_newlines_and_interpolations_in_tags_survive_as_literals() {
    for nasty in HOSTILE_VALUES {
        let ground = CliHarness::new();
        let tag = format!("environment: {}", json!(nasty));
        ground.write("demo.yaml", QUICKSTART.replace("environment: demo", &tag));
        ground.render().assert_success();
        let values = ground.read("out/default/demo-eks-controlplane/terraform.tfvars.json");
        let values: Value = serde_json::from_str(&values).unwrap();
        assert_eq!(values["tags"]["environment"], nasty);
    }
}

#[test]
fn a_value_in_quotes_of_an_inline_module_stays_inside_of_them() {
    for nasty in HOSTILE_VALUES {
        let text = template("output \"note\" {\n  value = \"<${it}>\"\n}", "", &json!({ "it": nasty }));
        let ground = CliHarness::new();
        ground.write("demo.yaml", text);
        ground.render().assert_success();
        let main = ground.read("out/default/mine/main.tf");
        let value = main.lines().nth(1).unwrap();
        assert_eq!(main.lines().count(), 3, "a line break left the quotes: {main}");
        assert!(value.starts_with("  value = \"<") && value.ends_with(">\""), "{main}");
        let (inside, doubled) = (value.replace("$${", "").replace("%%{", ""), ["${", "%{"]);
        assert!(doubled.iter().all(|it| !inside.contains(it)), "an interpolation came alive: {main}");
    }
}
