//! The driver's values against the real engine, with built-in `terraform_data` only: no provider, no network.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "only tests are here")]

mod harness;

use std::{collections::BTreeMap, path::Path};

use harness::EngineHarness;
use serde_json::{Value, json};
use terraform_driver::{
    classify::{FailureClass, primary_failure},
    command::{LockFileMode, PLAN_FILE, PlanMode},
    events::{Event, EventKind, StreamItem, TerraformProgress, read_all},
    output::Outputs,
    plan::{DetailedPlan, GuardPolicy, PlanAction, PlanIntent, PlanSummary, check_plan},
    planfile::PlanFile,
    render::{InlineFormat, RenderRequest, RootSource, TemplateVar, VarFile, render},
    source::{LocalModules, ModuleSource},
    substitute::{PlaceholderValues, substitute_placeholders},
};

/// Everything that has a meaning in HCL, in JSON, in a template or in a shell.
const NASTY: &[&str] = &[
    "plain",
    "",
    "\"quoted\" and \\back\\slashed\\",
    "line\nbreak\r\nand\ttab",
    "${path.module} and $${x} and $$${y}",
    "%{ if true }x%{ endif } and %%{",
    "$",
    "${",
    "%{",
    "}",
    "{",
    "ünïcödé 🦀 \u{2028}",
    "EOT\nEOT\n",
    "# no comment // none /* either */",
    "'; rm -rf / #",
    "[\"json\", {\"a\": 1}]",
    "true",
    "0x10",
    "null",
];

fn inline(text: &str) -> RenderRequest {
    RenderRequest::new(
        "default",
        "demo",
        RootSource::Inline { format: InlineFormat::Hcl, text: text.to_owned() },
    )
}

fn outputs(bench: &EngineHarness) -> Outputs {
    Outputs::from_state(&bench.read("terraform.tfstate")).unwrap()
}

#[test]
fn values_of_a_module_come_back_from_terraform_as_they_went_in() {
    let module = "variable \"v\" {\n  type = any\n}\noutput \"v\" {\n  value = var.v\n}\n";
    let source = RootSource::Module([("main.tf".to_owned(), module.as_bytes().to_vec())].into());
    let mut request = RenderRequest::new("default", "demo", source);
    let values: BTreeMap<&str, &str> = NASTY.iter().map(|text| (*text, *text)).collect();
    request.variables.insert("v".to_owned(), json!(values));
    let bench = EngineHarness::with(&render(&request).unwrap());
    bench.apply();
    assert_eq!(outputs(&bench).get("v").unwrap().expose(), &json!(values));
}

#[test]
fn vars_mean_to_terraform_what_the_command_line_means() {
    let text = r#"
variable "azs" { type = list(string) }
variable "n" { type = number }
variable "on" { type = bool }
variable "free" {}
variable "policy" { type = string }
variable "m" { type = map(string) }
variable "late" { type = string }
output "all" { value = [var.azs, var.n + 1, !var.on, var.free, var.policy, var.m, var.late] }
"#;
    let mut request = inline(text);
    let var = |key: &str, value: &str| TemplateVar { key: key.to_owned(), value: value.to_owned() };
    request.vars = vec![
        var("azs", "[\"a\", \"b\"]"),
        var("n", "2"),
        var("on", "true"),
        var("free", "[1]"),
        var("policy", "{\"Version\":\"2012-10-17\"}"),
        var("m", "{ k = \"$${v}\" }"),
        var("late", "from vars"),
    ];
    let file =
        |text: &str| VarFile { origin: "o".to_owned(), format: InlineFormat::Hcl, text: text.to_owned() };
    request.upstream_outputs.insert("late".to_owned(), json!("from upstream"));
    request.var_files = (0..12).map(|i| file(&format!("late = \"from file {i}\"\n"))).collect();
    let bench = EngineHarness::with(&render(&request).unwrap());
    bench.apply();
    let all = outputs(&bench).get("all").unwrap().expose().clone();
    assert_eq!(
        all,
        json!([["a", "b"], 3, false, "[1]", "{\"Version\":\"2012-10-17\"}", {"k": "${v}"}, "from file 11"])
    );
}

#[test]
fn substituted_values_are_literals_to_terraform() {
    let mut hcl = String::new();
    let mut json_outputs = serde_json::Map::new();
    let mut variables = BTreeMap::new();
    for (i, text) in NASTY.iter().enumerate() {
        variables.insert(format!("v{i}"), (*text).to_owned());
        let text = format!(
            "output \"q{i}\" {{\n  value = \"a %${{v{i}}}b\"\n}}\noutput \"h{i}\" {{\n  value = <<-EOT\n    a ${{v{i}}}b\n  EOT\n}}\n"
        );
        hcl.push_str(&text);
        json_outputs.insert(format!("j{i}"), json!({"value": format!("a ${{v{i}}}b")}));
    }
    let substituted = |format: &str, module: &str| {
        let spec = json!({"forProvider": {"source": "Inline", "inlineFormat": format, "module": module}});
        let done = substitute_placeholders(&spec, &PlaceholderValues::new("demo", &variables)).unwrap();
        done["forProvider"]["module"].as_str().unwrap().to_owned()
    };
    let mut request = inline(&substituted("HCL", &hcl));
    let json_module = json!({"output": json_outputs}).to_string();
    let extra = terraform_driver::render::FileContents::plain(substituted("JSON", &json_module).into_bytes());
    request.extra_files.insert("more.tf.json".to_owned(), extra);
    let bench = EngineHarness::with(&render(&request).unwrap());
    bench.apply();
    let outputs = outputs(&bench);
    for (i, text) in NASTY.iter().enumerate() {
        assert_eq!(
            outputs.get(&format!("q{i}")).unwrap().expose(),
            &json!(format!("a %{text}b")),
            "quoted {i}"
        );
        assert_eq!(
            outputs.get(&format!("h{i}")).unwrap().expose(),
            &json!(format!("a {text}b\n")),
            "heredoc {i}"
        );
        assert_eq!(outputs.get(&format!("j{i}")).unwrap().expose(), &json!(format!("a {text}b")), "json {i}");
    }
}

const RESOURCES: &str = r#"
variable "input" {
  type      = string
  sensitive = true
}
resource "terraform_data" "a" { input = var.input }
resource "terraform_data" "b" {
  input            = terraform_data.a.id
  triggers_replace = nonsensitive(sha256(var.input))
}
output "secret" {
  value     = var.input
  sensitive = true
}
"#;

fn with_input(text: &str) -> terraform_driver::render::RenderedWorkspace {
    let mut request = inline(RESOURCES);
    request.vars = vec![TemplateVar { key: "input".to_owned(), value: text.to_owned() }];
    render(&request).unwrap()
}

/// What `show` says of the saved plan, with the hash of the file.
fn plan_of(bench: &EngineHarness, configuration: &str) -> PlanSummary {
    let hash = PlanFile::parse(&bench.read("capt.tfplan")).unwrap().summary(None, configuration).hash;
    DetailedPlan::parse(&bench.run(&bench.commands().show_plan(), 0).stdout).unwrap().summary(hash)
}

#[test]
fn a_run_from_init_to_destroy_is_read_from_its_own_words() {
    let rendered = with_input("canary-one");
    let bench = EngineHarness::with(&rendered);
    let commands = bench.commands();
    bench.run(&commands.init(LockFileMode::Absent), 0);
    let valid: Value = serde_json::from_slice(&bench.run(&commands.validate(), 0).stdout).unwrap();
    assert_eq!(valid["valid"], true);

    bench.run(&commands.plan(PlanMode::Change), 2);
    let summary = plan_of(&bench, &rendered.digest);
    assert_eq!((summary.counts.add, summary.counts.destroy), (2, 0));
    assert!(check_plan(&summary, &GuardPolicy::default(), PlanIntent::Change, None).is_allowed());
    let printed = format!("{summary:?} {}", serde_json::to_string(&summary).unwrap());
    assert!(!printed.contains("canary"), "{printed}");
    bench.run(&commands.plan(PlanMode::Change), 2);
    assert_eq!(plan_of(&bench, &rendered.digest).hash, summary.hash, "the same plan has the same hash");

    let mut progress = TerraformProgress::with_total(summary.counts.operations());
    let said = bench.run(&commands.apply(PlanMode::Change), 0).stdout;
    let mut ids = Vec::new();
    read_all(&said, |item| {
        let StreamItem::Event(event) = item else { panic!() };
        assert!(!matches!(event.kind, EventKind::Text | EventKind::Unknown { .. }), "{event:?}");
        assert!(!event.is_unknown_stream());
        progress.observe(&event);
        if let EventKind::ApplyComplete(hook) = &event.kind {
            ids.push(hook.address.to_string());
        }
    });
    assert_eq!((progress.done(), progress.total(), progress.failed()), (2, 2, 0));
    assert_eq!(ids, ["terraform_data.a", "terraform_data.b"]);
    assert!(!String::from_utf8_lossy(&said).contains("canary"));
    let outputs = outputs(&bench);
    assert!(outputs.non_sensitive().is_empty() && !format!("{outputs:?}").contains("canary"));
    assert_eq!(outputs.connection_strings()["secret"].expose(), "canary-one");

    bench.run(&commands.plan(PlanMode::Change), 0);
    bench.run(&commands.plan(PlanMode::RefreshOnly), 0);
    bench.write(&with_input("canary-two"));
    bench.run(&commands.plan(PlanMode::Change), 2);
    let summary = plan_of(&bench, "");
    let actions: Vec<_> =
        summary.changes.iter().map(|change| (change.address.as_str(), change.action)).collect();
    assert_eq!(
        actions,
        [("terraform_data.a", PlanAction::Change), ("terraform_data.b", PlanAction::Replace)]
    );
    assert!(
        summary.changes[1].attributes.iter().any(|a| a.path == "triggers_replace" && a.forces_replacement)
    );

    bench.run(&commands.plan(PlanMode::Destroy), 2);
    assert_eq!(plan_of(&bench, "").counts.destroy, 2);
    bench.run(&commands.apply(PlanMode::Destroy), 0);
    let left: Value = serde_json::from_slice(&bench.read("terraform.tfstate")).unwrap();
    assert_eq!(left["resources"], json!([]));
}

fn failure_of(stdout: &[u8]) -> FailureClass {
    let mut diagnostics = Vec::new();
    read_all(stdout, |item| {
        if let StreamItem::Event(Event { kind: EventKind::Diagnostic(diagnostic), .. }) = item {
            diagnostics.push(diagnostic);
        }
    });
    primary_failure(&diagnostics).expect("terraform said why").class
}

#[test]
fn failures_of_the_engine_are_classified_from_its_own_words() {
    let bench = EngineHarness::with(&with_input("one"));
    let commands = bench.commands();
    assert_eq!(
        failure_of(&bench.run(&commands.plan(PlanMode::Change), 1).stdout),
        FailureClass::Engine,
        "not initialised"
    );
    bench.run(&commands.init(LockFileMode::Absent), 0);
    bench.run(&commands.plan(PlanMode::Change), 2);
    let plan = bench.read(PLAN_FILE);
    bench.run(&commands.apply(PlanMode::Change), 0);
    std::fs::write(bench.path(PLAN_FILE), plan).unwrap();
    assert_eq!(failure_of(&bench.run(&commands.apply(PlanMode::Change), 1).stdout), FailureClass::StalePlan);

    let locked = render(&inline("variable \"x\" {}\nresource \"terraform_data\" \"a\" {\n  lifecycle {\n    prevent_destroy = true\n  }\n}\n")).unwrap();
    bench.write(&locked);
    assert_eq!(
        failure_of(&bench.run(&commands.plan(PlanMode::Change), 1).stdout),
        FailureClass::UserFix,
        "no value"
    );
    std::fs::write(bench.path("x.auto.tfvars"), "x = 1\n").unwrap();
    assert_eq!(failure_of(&bench.run(&commands.plan(PlanMode::Destroy), 1).stdout), FailureClass::Protected);
    std::fs::write(bench.path("main.tf"), "resource \"nowhere_thing\" \"a\" {}\n").unwrap();
    assert_eq!(
        failure_of(&bench.run(&commands.init(LockFileMode::Absent), 1).stdout),
        FailureClass::Provider
    );
}

#[test]
fn a_state_is_pushed_and_a_taint_taken_off() {
    let bench = EngineHarness::with(&with_input("one"));
    let commands = bench.commands();
    bench.apply();
    let mut state: Value = serde_json::from_slice(&bench.read("terraform.tfstate")).unwrap();
    state["serial"] = json!(state["serial"].as_u64().unwrap() + 1);
    state["resources"][0]["instances"][0]["status"] = json!("tainted");
    std::fs::write(bench.path("errored.tfstate"), state.to_string()).unwrap();
    bench.run(&commands.state_push("errored.tfstate").unwrap(), 0);
    bench.run(&commands.plan(PlanMode::Change), 2);
    let summary = plan_of(&bench, "");
    assert_eq!(summary.changes[0].reason.as_deref(), Some("replace_because_tainted"));
    bench.run(&commands.untaint("terraform_data.a").unwrap(), 0);
    bench.run(&commands.plan(PlanMode::Change), 0);
    bench.run(&commands.import("terraform_data.a", "some-id").unwrap(), 1);
}

#[test]
fn a_root_is_fetched_into_an_empty_directory() {
    let bench = EngineHarness::with(&with_input("one"));
    let elsewhere = bench.path("../elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let address = bench.path("").display().to_string();
    let local = LocalModules::of_the_command_line();
    let source = ModuleSource::parse_with_local(&address, Path::new(""), local).unwrap();
    bench.run(&bench.commands_in(&elsewhere).fetch(&source), 0);
    assert_eq!(std::fs::read(elsewhere.join("main.tf")).unwrap(), bench.read("main.tf"));
    assert!(!elsewhere.join("terraform.tfstate").exists());
}
