//! The table of objects that the CRDs and the validator are judged by: the webhook is of their opinion.

use super::*;

const TABLES: [&str; 5] = [
    include_str!("../../../../tests/api_verdicts/cluster.yaml"),
    include_str!("../../../../tests/api_verdicts/control_plane.yaml"),
    include_str!("../../../../tests/api_verdicts/fargate.yaml"),
    include_str!("../../../../tests/api_verdicts/workspace.yaml"),
    include_str!("../../../../tests/api_verdicts/others.yaml"),
];

/// The namespace that the references of the tables and of the examples name: grants are judged elsewhere.
const HOME: &str = "default";

/// A cluster whose other namespaces grant everything.
fn granting() -> Cluster {
    let namespaces = ["shop", "platform", "team-b", "n"].map(|it| (it.to_owned(), allows("*")));
    Cluster { namespaces: namespaces.into(), ..Cluster::default() }
}

fn in_default(mut object: Value) -> Value {
    if object["metadata"].get("namespace").is_some() {
        object["metadata"]["namespace"] = json!(HOME);
    }
    object
}

/// Kind and spec, before and after; the verdict as it is written.
fn cases() -> Vec<(String, Value, Option<Value>, Value)> {
    let all = TABLES.iter().flat_map(|table| serde_saphyr::from_str::<Vec<Value>>(table).unwrap());
    all.map(|case| {
        let kind = case["kind"].as_str().unwrap_or("CAPTControlPlane");
        let spec = case.get("profiles").map_or_else(
            || case["spec"].clone(),
            |profiles| {
                let mut spec = json!({"version": "1.33", "additionalFargateProfiles": profiles});
                if let Some(config) = case.get("config") {
                    spec["controlPlaneConfig"] = config.clone();
                }
                spec
            },
        );
        let old = case.get("old").map(|old| in_default(object(kind, old)));
        let new = in_default(object(kind, &spec));
        (case["name"].as_str().unwrap().to_owned(), new, old, case["verdict"].clone())
    })
    .collect()
}

#[tokio::test]
async fn what_crds_and_validator_accept_passes_and_what_only_the_validator_refuses_does_not() {
    let (mut passed, mut refused) = (0, 0);
    for (name, new, old, verdict) in cases() {
        let heard = match &old {
            Some(old) => update(granting(), old, &new).await,
            None => create(granting(), &new).await,
        };
        let quota = verdict["why"] == "the quota is a setting";
        // Most texts of the table are a single word, which is no HCL; that is looked at elsewhere.
        let text = heard.refusal.as_ref().is_some_and(|it| it.contains("does not parse"));
        if verdict == "accept" {
            assert!(heard.refusal.is_none() || text, "{name}: {heard:?}");
            passed += 1;
        } else if verdict["admission"] == "accept" && quota {
            assert!(heard.refusal.is_none() && !heard.warnings.is_empty(), "{name}: {heard:?}");
        } else if verdict["admission"] == "accept" {
            assert!(heard.refusal.is_some(), "{name}: {heard:?}");
            refused += 1;
        }
    }
    assert!(passed > 50 && refused > 10, "{passed} {refused}");
}

#[tokio::test]
async fn the_examples_pass() {
    for text in [
        include_str!("../../../../examples/quickstart.yaml"),
        include_str!("../../../../examples/templates.yaml"),
    ] {
        let mut objects = serde_saphyr::from_multiple::<Value>(text).unwrap();
        for object in &mut objects {
            object["metadata"]["namespace"] = json!(HOME);
        }
        let of = |kind: &str| objects.iter().filter(|it| it["kind"] == kind).cloned().collect::<Vec<_>>();
        let templates = || {
            let named = |it: Value| (format!("{HOME}/{}", it["metadata"]["name"].as_str().unwrap()), it);
            Cluster {
                templates: of("WorkspaceTemplate").into_iter().map(named).collect(),
                ..Cluster::default()
            }
        };
        for object in &objects {
            let heard = create(templates(), object).await;
            assert!(heard.refusal.is_none(), "{object}: {heard:?}");
        }
    }
}
