//! The text that a scrape gets.

use std::collections::BTreeMap;

use super::*;

/// Every name that a dashboard may ask for, and what it is.
const NAMES: [(&str, &str); 26] = [
    ("reconcile_total", "counter"),
    ("reconcile_errors_total", "counter"),
    ("reconcile_duration_seconds", "histogram"),
    ("work_queue_depth", "gauge"),
    ("work_queue_latency_seconds", "histogram"),
    ("capt_runs", "gauge"),
    ("capt_runs_finished_total", "counter"),
    ("capt_run_duration_seconds", "histogram"),
    ("capt_run_queue_wait_seconds", "histogram"),
    ("capt_cluster_lock_wait_seconds", "histogram"),
    ("capt_drifted_workspaces", "gauge"),
    ("capt_state_replication_seconds", "histogram"),
    ("capt_state_replication_lag_seconds", "histogram"),
    ("capt_journal_replication_seconds", "histogram"),
    ("capt_journal_replication_failures_total", "counter"),
    ("capt_fargate_profiles", "gauge"),
    ("capt_fargate_profile_creation_seconds", "histogram"),
    ("capt_fargate_profile_deletion_seconds", "histogram"),
    ("capt_cluster_creation_seconds", "histogram"),
    ("capt_cluster_deletion_seconds", "histogram"),
    ("capt_api_calls_total", "counter"),
    ("capt_leader", "gauge"),
    ("capt_build_info", "info"),
    ("capt_run_duration_seconds_bucket", "histogram"),
    ("capt_run_duration_seconds_sum", "histogram"),
    ("capt_run_duration_seconds_count", "histogram"),
];

fn measured() -> Metrics {
    let metrics = Metrics::new("1.2.3");
    let controller = metrics.controller("captcluster");
    controller.reconcile().completed();
    controller.reconcile().failed("transient");
    controller.set_queue_depth(7);
    controller.queue_waited(Duration::from_millis(3));
    drop(metrics.run_phase("apply", "planning"));
    metrics.run_finished("apply", "succeeded");
    metrics.run_waited("create", Duration::from_secs(4));
    metrics.lock_waited(Duration::from_secs(90));
    metrics.set_drifted(2);
    metrics.state_replicated(Duration::from_millis(30));
    metrics.state_lagged(Duration::from_millis(40));
    metrics.journal_replicated(Duration::from_millis(4));
    metrics.journal_failed();
    metrics.set_profiles("active", 4);
    metrics.profile_created(Duration::from_secs(80));
    metrics.profile_deleted(Duration::from_secs(70));
    metrics.cluster_created(Duration::from_mins(14));
    metrics.cluster_deleted(Duration::from_mins(9));
    metrics.api_call(CallResult::Timeout);
    metrics.set_leader(true);
    metrics
}

/// Reads the text format strictly: families in one piece and once, samples with the suffixes of their type, a final EOF.
fn parse(text: &str) -> BTreeMap<String, String> {
    let body = text.strip_suffix("# EOF\n").expect("the text ends with EOF");
    let (mut samples, mut families) = (BTreeMap::new(), BTreeMap::<String, String>::new());
    let mut family = String::new();
    for line in body.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["#", "TYPE", name, kind] => {
                assert!(families.insert((*name).to_owned(), (*kind).to_owned()).is_none(), "{name} twice");
                (*name).clone_into(&mut family);
            }
            ["#", "UNIT", name, unit] => assert!(name.ends_with(unit), "{line}"),
            ["#", "HELP", ..] => {}
            _ => {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let suffix = series.split('{').next().unwrap().strip_prefix(&family).unwrap();
                let allowed: &[&str] = match families[&family].as_str() {
                    "counter" => &["_total"],
                    "histogram" => &["_bucket", "_sum", "_count"],
                    "info" => &["_info"],
                    _ => &[""],
                };
                assert!(allowed.contains(&suffix), "{line} in {family}");
                assert!(value.parse::<f64>().is_ok(), "{line}");
                assert!(samples.insert(series.to_owned(), value.to_owned()).is_none(), "{series}");
            }
        }
    }
    samples
}

#[test]
fn every_name_is_there_with_its_type_and_the_text_parses() {
    let text = measured().encode().unwrap();
    let samples = parse(&text);
    for (name, kind) in NAMES {
        let is_it = |series: &String| {
            let plain = series.split('{').next().unwrap();
            plain == name || (kind == "histogram" && plain == format!("{name}_count"))
        };
        assert!(samples.keys().any(is_it), "{name} is not in\n{text}");
        let family = ["_total", "_info", "_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        assert!(text.contains(&format!("# TYPE {family} {kind}\n")), "{family} is no {kind} in\n{text}");
    }
}

#[test]
fn values_are_what_was_measured() {
    let samples = parse(&measured().encode().unwrap());
    for (series, value) in [
        ("reconcile_total{controller=\"captcluster\",outcome=\"completed\"}", "1"),
        ("reconcile_total{controller=\"captcluster\",outcome=\"failed\"}", "1"),
        ("reconcile_total{controller=\"captcluster\",outcome=\"abandoned\"}", "0"),
        ("reconcile_errors_total{controller=\"captcluster\",class=\"transient\"}", "1"),
        ("work_queue_depth{controller=\"captcluster\"}", "7"),
        ("capt_runs{phase=\"planning\"}", "0"),
        ("capt_runs_finished_total{operation=\"apply\",result=\"succeeded\"}", "1"),
        ("capt_cluster_creation_seconds_bucket{le=\"600.0\"}", "0"),
        ("capt_cluster_creation_seconds_bucket{le=\"900.0\"}", "1"),
        ("capt_cluster_creation_seconds_bucket{le=\"7200.0\"}", "1"),
        ("capt_api_calls_total{result=\"ok\"}", "0"),
        ("capt_api_calls_total{result=\"timeout\"}", "1"),
        ("capt_drifted_workspaces", "2"),
        ("capt_leader", "1"),
        ("capt_build_info{version=\"1.2.3\"}", "1"),
    ] {
        assert_eq!(samples.get(series).map(String::as_str), Some(value), "{series}");
    }
}

#[test]
fn a_reconcile_that_nobody_ends_is_abandoned_and_measured_all_the_same() {
    let metrics = Metrics::new("0");
    let controller = metrics.controller("captidentity");
    drop(controller.reconcile());
    controller.reconcile().waiting();
    let samples = parse(&metrics.encode().unwrap());
    assert_eq!(samples["reconcile_total{controller=\"captidentity\",outcome=\"abandoned\"}"], "1");
    assert_eq!(samples["reconcile_total{controller=\"captidentity\",outcome=\"waiting\"}"], "1");
    assert_eq!(samples["reconcile_duration_seconds_count{controller=\"captidentity\"}"], "2");
}

#[test]
fn a_run_is_in_its_phase_until_its_timer_is_dropped() {
    let metrics = Metrics::new("0");
    let in_phase = || parse(&metrics.encode().unwrap())["capt_runs{phase=\"applying\"}"].clone();
    let first = metrics.run_phase("apply", "applying");
    let second = metrics.run_phase("destroy", "applying");
    assert_eq!(in_phase(), "2");
    drop(first);
    assert_eq!(in_phase(), "1");
    drop(second);
    assert_eq!(in_phase(), "0");
}
