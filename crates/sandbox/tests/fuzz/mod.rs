//! Fuzz of the fork: whatever a baseline looks like, nothing panics, and a fork never passes for its baseline.
//!
//! Two seconds in an ordinary test run; `FUZZ_SECONDS=60` is what CI does. A failure prints the seed and the input;
//! `FUZZ_SEED` repeats it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on stops, and says where"
)]

mod mutate;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use capt_kinds::sandbox::{Sandbox, names};
use k8s_openapi::api::core::v1::Service;
use sandbox::{
    fork::{ForkAddress, ForkRequest, ForkedDeployment, build_fork, source_hash, template_hash},
    namespace_context::NamespaceContext,
    service::{baseline_services, fork_services, misselecting_objects},
    template::own_labels,
    unsupported,
    validate::{check_patched_baseline, validate_sandbox},
};
use serde_json::{Value, json};

use self::mutate::Mutator;

#[expect(clippy::disallowed_methods, reason = "how long and from where is the caller's choice")]
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

fn corpus() -> Vec<Value> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|it| it.extension().is_some_and(|it| it == "json")).collect();
    files.sort();
    files.iter().map(|it| serde_json::from_str(&fs::read_to_string(it).unwrap()).unwrap()).collect()
}

fn sandbox(fork: &Value) -> Option<Sandbox> {
    let object = json!({
        "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "Sandbox",
        "metadata": {"name": "pr-1", "namespace": "shop", "uid": "u"}, "spec": {"forks": [fork]}
    });
    serde_json::from_value(object).ok()
}

fn services() -> Vec<Service> {
    serde_json::from_value(json!([
        {"metadata": {"name": "cart"}, "spec": {"selector": {"app": "cart"}, "ports": [{"port": 80, "targetPort": "http"}, {"port": 81}]}},
        {"metadata": {"name": "all"}, "spec": {"selector": {"team": "carts"}, "ports": [{"port": 80, "targetPort": 8080}]}}
    ]))
    .unwrap()
}

fn forked(sandbox: &Sandbox, baseline: &Value) -> Option<ForkedDeployment> {
    let spec = sandbox.spec.forks.first()?;
    let addresses = BTreeMap::from([("cart".to_owned(), ForkAddress { host: "h".to_owned(), port: 80 })]);
    let hash = source_hash(baseline, sandbox, spec, "key");
    let order = ForkRequest {
        sandbox,
        fork: spec,
        key: "key",
        route_server: None,
        addresses: &addresses,
        extra_labels: &BTreeMap::new(),
        source_hash: &hash,
    };
    build_fork(baseline, &order).ok()
}

#[test]
fn no_baseline_breaks_the_fork() {
    let (corpus, services) = (corpus(), services());
    let seed = setting("FUZZ_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let until = Instant::now() + Duration::from_secs(setting("FUZZ_SECONDS").unwrap_or(2));
    let mut mutator = Mutator::new(seed);
    let (mut tried, mut made) = (0_u64, 0_u64);
    // At least so many, even where the machine gives them no time.
    while tried < 1_000 || Instant::now() < until {
        let case = mutator.choose(&corpus);
        let baseline = mutator.mutate(&case["baseline"], &corpus);
        let spec =
            if mutator.chance(4) { mutator.mutate(&case["fork"], &corpus) } else { case["fork"].clone() };
        tried += 1;
        let Some(sandbox) = sandbox(&spec) else { continue };
        let shown = || format!("seed {seed}\n{baseline:#}\n{spec:#}");
        let verdict = std::panic::catch_unwind(|| one(&sandbox, &baseline, &services));
        match verdict {
            Ok(Ok(is_made)) => made += u64::from(is_made),
            Ok(Err(what)) => panic!("{what}: {}", shown()),
            Err(why) => {
                eprintln!("it panicked: {}", shown());
                std::panic::resume_unwind(why);
            }
        }
    }
    assert!(made > 0, "nothing was forked: the mutations are too wild to reach anything");
    eprintln!("{tried} inputs, {made} forks, seed {seed}");
}

/// Whether a fork was made; `Err` if it is not what a fork must be.
fn one(sandbox: &Sandbox, baseline: &Value, services: &[Service]) -> Result<bool, String> {
    let around = NamespaceContext { services, ..NamespaceContext::default() };
    let _verdicts = (
        validate_sandbox(sandbox),
        unsupported::check_exclusive_resources(baseline, &around),
        unsupported::check_fargate_support(baseline, &around),
    );
    let _more = (
        template_hash(baseline),
        baseline_services(baseline, services),
        unsupported::fargate_notes(baseline),
    );
    let Some(made) = forked(sandbox, baseline) else { return Ok(false) };
    let again = forked(sandbox, baseline).ok_or("it is forked once and not twice")?;
    let object = &made.object;
    let checks = [
        (again == made, "two forks differ"),
        (
            object["spec"]["selector"] == json!({"matchLabels": {names::FORK_LABEL: made.name}}),
            "another selector",
        ),
        (object["spec"]["template"]["metadata"]["labels"][names::FORK_LABEL] == json!(made.name), "no label"),
        (object["metadata"]["namespace"] == json!("shop"), "another namespace"),
        (made.name.len() <= 52, "a long name"),
        (object["metadata"].get("uid").is_none() && object.get("status").is_none(), "the server's fields"),
        (environments_are_sets(object), "a variable twice"),
    ];
    if let Some((_, what)) = checks.iter().find(|(fine, _)| !fine) {
        return Err((*what).to_owned());
    }
    let own = own_labels(
        &made.name,
        sandbox,
        object["metadata"]["labels"][names::BASELINE_LABEL].as_str().unwrap_or_default(),
    );
    let kept = sandbox.spec.forks[0].customizations.preserved_labels.len();
    if kept == 0 && !misselecting_objects(&made.pod_labels, &own, &around).is_empty() {
        return Err("a Service of the baseline would find the fork".to_owned());
    }
    if check_patched_baseline(baseline, baseline).is_err() {
        return Err("a baseline that nobody patched is refused".to_owned());
    }
    let services = fork_services(sandbox, baseline, object, services);
    if services.services.len() != services.statuses.len() {
        return Err("a Service without a status".to_owned());
    }
    Ok(true)
}

/// An apply refuses a list with two variables of one name.
fn environments_are_sets(object: &Value) -> bool {
    let pod = &object["spec"]["template"]["spec"];
    let lists = ["containers", "initContainers"].into_iter().filter_map(|it| pod[it].as_array());
    lists.flatten().filter_map(|it| it["env"].as_array()).all(|env| {
        let names: Vec<_> = env.iter().map(|it| it["name"].to_string()).collect();
        names.iter().collect::<BTreeSet<_>>().len() == names.len()
    })
}
