//! Runs the same configurations with and without the gateway: output, state and plans must be equal.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what goes wrong here fails a test"
)]

mod cases;

use crate::support::{Bench, Said, Workspace, outer, provider};
use cases::{CASES, Case, CasePhase};
use serde_json::Value;

/// So many are compared without `CORPUS` and for `CORPUS=few`; all of them for `CORPUS=all`, one for its name. Plain
/// terraform takes ten seconds of CPU for each command.
const FEW: usize = 3;

/// One test each, so that the groups can run at the same time.
macro_rules! groups {
    ($($name:ident),+) => {
        const GROUPS: &[&str] = &[$(stringify!($name)),+];

        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            compare(stringify!($name)).await;
        })+
    };
}

groups!(
    with_and_without_the_gateway_it_is_the_same_1,
    with_and_without_the_gateway_it_is_the_same_2,
    with_and_without_the_gateway_it_is_the_same_3,
    with_and_without_the_gateway_it_is_the_same_4,
    with_and_without_the_gateway_it_is_the_same_5,
    with_and_without_the_gateway_it_is_the_same_6,
    with_and_without_the_gateway_it_is_the_same_7
);

/// The cases in the order of the corpus are dealt out like cards, because the long ones stand together.
fn group(name: &str) -> impl Iterator<Item = &'static Case> {
    let at = GROUPS.iter().position(|it| *it == name).unwrap();
    CASES.iter().skip(at).step_by(GROUPS.len())
}

fn wanted() -> Vec<&'static str> {
    match outer().remove("CORPUS").unwrap_or_default().as_str() {
        "" | "few" => CASES.iter().take(FEW).map(|case| case.name).collect(),
        "all" => CASES.iter().map(|case| case.name).collect(),
        name => CASES.iter().map(|case| case.name).filter(|it| *it == name).collect(),
    }
}

#[test]
fn each_case_is_in_one_group_and_there_is_something_to_compare() {
    let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|name| group(name)).map(|case| case.name).collect();
    let mut all: Vec<&str> = CASES.iter().map(|case| case.name).collect();
    grouped.sort_unstable();
    all.sort_unstable();
    assert_eq!(grouped, all);
    all.dedup();
    assert!(all.len() >= 30 && all.len() == CASES.len(), "{} names", all.len());
    assert!(!wanted().is_empty(), "there is no case of the name that CORPUS says");
}

async fn compare(name: &str) {
    let wanted = wanted();
    let chosen: Vec<&Case> = group(name).filter(|case| wanted.contains(&case.name)).collect();
    if chosen.is_empty() {
        return;
    }
    let bench = Bench::new().await;
    let template = bench.workspace("template", "");
    template.run(&["init", "-no-color"], None).await.ok();
    let mut broken = Vec::new();
    for case in chosen {
        // One after the other: they make things of the same name.
        let plain = run(&bench, case, &template, false).await;
        let shared = run(&bench, case, &template, true).await;
        assert_eq!(plain.len(), shared.len(), "{}", case.name);
        for (plain, shared) in plain.iter().zip(&shared) {
            if plain != shared {
                broken.push(format!("{}:\n--- plain\n{plain}\n--- gateway\n{shared}", case.name));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
    assert_eq!(bench.gateway.counters().counts().unwanted, 0);
}

/// Everything that one way of running a case says and leaves.
async fn run(bench: &Bench, case: &Case, template: &Workspace, shared: bool) -> Vec<String> {
    let name = format!("{}-{}", case.name, if shared { "gateway" } else { "plain" });
    let workspace = bench.like(template, &name, &text(bench, case));
    let go = |args: &'static [&'static str]| {
        let workspace = &workspace;
        async move { if shared { bench.run(workspace, args).await } else { workspace.run(args, None).await } }
    };
    let mut said = Vec::new();
    let planned = go(&["plan", "-no-color", "-detailed-exitcode", "-out=saved"]).await;
    said.push(words(&planned));
    if planned.code != 1 {
        said.push(plan(&go(&["show", "-json", "saved"]).await.ok()));
    }
    if case.goes == CasePhase::Plan {
        return said;
    }
    let applied = go(&["apply", "-auto-approve", "-no-color"]).await;
    assert_eq!(
        applied.code == 0,
        case.goes == CasePhase::Through,
        "{}: {}{}",
        name,
        applied.out,
        applied.err
    );
    said.push(words(&applied));
    said.push(state(&workspace));
    if case.goes == CasePhase::Through {
        said.push(words(&go(&["plan", "-no-color", "-detailed-exitcode"]).await));
    }
    said.push(words(&go(&["destroy", "-auto-approve", "-no-color"]).await));
    said.push(state(&workspace));
    said
}

fn text(bench: &Bench, case: &Case) -> String {
    let block = provider(&bench.endpoint, "us-east-1", "test", "");
    if !case.bare {
        return format!("{block}\n{}\n", case.text);
    }
    let inner = block.split_once('{').unwrap().1.rsplit_once('}').unwrap().0;
    let inner: Vec<&str> = inner.lines().filter(|line| !line.trim_start().starts_with("region")).collect();
    case.text.replace("AWS", &inner.join("\n"))
}

/// What terraform said, without what differs from run to run: ids, times, and the order of what happens at once.
fn words(said: &Said) -> String {
    let progress = [
        "Refreshing state",
        "Reading...",
        "Read complete",
        "Creating...",
        "Creation complete",
        "Still ",
        "Destroying...",
        "Destruction complete",
        "Opening...",
        "Opening complete",
        "Closing...",
        "Closing complete",
    ];
    let lines = said.out.lines().chain(said.err.lines());
    let mut kept: Vec<String> =
        lines.filter(|line| !progress.iter().any(|it| line.contains(it))).map(normal).collect();
    if said.code != 0 {
        // Several errors come in any order.
        kept.sort();
    }
    format!("exit code {}\n{}", said.code, kept.join("\n"))
}

/// What AWS makes up is all one: runs of hexadecimal digits, times of the day, and the ids of IAM.
fn normal(text: &str) -> String {
    let mut result = String::new();
    for word in text.split_inclusive(|it: char| !it.is_ascii_alphanumeric() && it != ':') {
        let bare = word.trim_end_matches(|it: char| !it.is_ascii_alphanumeric());
        let is_id = bare.len() >= 16 && bare.starts_with("AROA");
        // Of requests; nothing that people write is that long.
        let is_id = is_id || bare.len() >= 40;
        let is_time = bare.len() >= 8 && bare.bytes().filter(|it| *it == b':').count() == 2;
        if is_id || is_time {
            result.push('#');
            result.push_str(&word[bare.len()..]);
        } else {
            result.push_str(word);
        }
    }
    without_hex(&result)
}

fn without_hex(text: &str) -> String {
    let mut result = String::new();
    let mut run = String::new();
    for letter in text.chars().chain(['\n']) {
        if letter.is_ascii_hexdigit() || (letter == '-' && run.len() >= 4) {
            run.push(letter);
            continue;
        }
        result.push_str(if run.len() >= 8 { "#" } else { &run });
        run.clear();
        result.push(letter);
    }
    result
}

fn state(workspace: &Workspace) -> String {
    let mut state: Value = workspace.state();
    let object = state.as_object_mut().unwrap();
    object.remove("lineage");
    // How often it was written depends on who was faster.
    object.remove("serial");
    for resource in state["resources"].as_array_mut().unwrap() {
        for instance in resource["instances"].as_array_mut().unwrap() {
            // Terraform writes them in the order of a map: in none.
            if let Some(sensitive) = instance["sensitive_attributes"].as_array_mut() {
                sensitive.sort_by_key(Value::to_string);
            }
            let attributes = instance["attributes"].as_object_mut();
            for (_, value) in attributes.into_iter().flat_map(serde_json::Map::iter_mut) {
                blank_random(value);
            }
        }
    }
    normal(&format!("{state:#}"))
}

/// A plan as `terraform show` has it, without the time at which it was made.
fn plan(text: &str) -> String {
    let mut plan: Value = serde_json::from_str(text).unwrap();
    plan.as_object_mut().unwrap().remove("timestamp");
    // Terraform writes them in the order of a map: in none.
    if let Some(relevant) = plan["relevant_attributes"].as_array_mut() {
        relevant.sort_by_key(Value::to_string);
    }
    normal(&format!("{plan:#}"))
}

/// Names with a prefix end in a time and a number.
fn blank_random(value: &mut Value) {
    if let Value::String(text) = value
        && text.split(|it: char| !it.is_ascii_digit()).any(|digits| digits.len() >= 20)
    {
        "#".clone_into(text);
    }
}
