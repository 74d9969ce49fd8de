//! One table of objects, checked twice: by the CRDs as an API server applies them, and by the Rust validator. They must agree.
//!
//! Where the validator goes further the table says so and why (a field that upstream admits with any content, a quota that is a
//! setting, a rule beyond CEL's budget); the other way round is never allowed.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a table that cannot be read is a failed test")]

mod admission;
mod patterns;
mod validator;

use serde::Deserialize;
use serde_json::{Value, json};

const TABLES: [(&str, &str); 5] = [
    ("cluster.yaml", include_str!("api_verdicts/cluster.yaml")),
    ("control_plane.yaml", include_str!("api_verdicts/control_plane.yaml")),
    ("fargate.yaml", include_str!("api_verdicts/fargate.yaml")),
    ("workspace.yaml", include_str!("api_verdicts/workspace.yaml")),
    ("others.yaml", include_str!("api_verdicts/others.yaml")),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    kind: Option<String>,
    /// The spec; an object without one if left out.
    #[serde(default)]
    spec: Option<Value>,
    /// The spec before an update.
    #[serde(default)]
    old: Option<Value>,
    /// Short for a control plane with these Fargate profiles.
    #[serde(default)]
    profiles: Option<Value>,
    /// The `controlPlaneConfig` beside `profiles`.
    #[serde(default)]
    config: Option<Value>,
    verdict: ExpectedVerdict,
    /// The field that a rejection must name.
    #[serde(default)]
    at: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ExpectedVerdict {
    Both(Decision),
    Further { admission: Decision, validator: Decision, why: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Accept,
    Reject,
}

impl Decision {
    fn from_result<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Accept } else { Self::Reject }
    }
}

impl Case {
    fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or("CAPTControlPlane")
    }

    fn spec(&self) -> Option<Value> {
        let Some(profiles) = &self.profiles else { return self.spec.clone() };
        let config = self.config.clone().unwrap_or_else(|| json!({}));
        Some(
            json!({ "version": "1.33", "controlPlaneConfig": config, "additionalFargateProfiles": profiles }),
        )
    }

    fn object(&self, spec: Option<Value>) -> Value {
        let group =
            if self.kind().starts_with("CAPTControlPlane") { "controlplane" } else { "infrastructure" };
        let mut object = json!({
            "apiVersion": format!("{group}.cluster.x-k8s.io/v1beta1"),
            "kind": self.kind(),
            "metadata": { "name": "harbour" },
        });
        if let Some(spec) = spec {
            object["spec"] = spec;
        }
        object
    }
}

fn cases() -> Vec<(&'static str, Case)> {
    let read = |(file, text): (&'static str, &str)| {
        let cases: Vec<Case> = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        cases.into_iter().map(move |case| (file, case))
    };
    TABLES.into_iter().flat_map(read).collect()
}

#[test]
fn p20_both_judges_agree_on_every_object_of_the_table() {
    let mut wrong = Vec::new();
    let crds = admission::Crds::new();
    for (file, case) in cases() {
        let new = case.object(case.spec());
        let old = case.old.clone().map(|old| case.object(Some(old)));
        let admission = crds.admit(case.kind(), &new, old.as_ref());
        let validator = validator::validate(case.kind(), &new, old.as_ref());
        let (by_admission, by_validator) = match &case.verdict {
            ExpectedVerdict::Both(answer) => (*answer, *answer),
            ExpectedVerdict::Further { admission, validator, .. } => (*admission, *validator),
        };
        if Decision::from_result(&admission) != by_admission {
            wrong.push(format!("{file}: {:?}: the CRD should {by_admission:?}: {admission:?}", case.name));
        }
        if Decision::from_result(&validator) != by_validator {
            wrong.push(format!(
                "{file}: {:?}: the validator should {by_validator:?}: {validator:?}",
                case.name
            ));
        }
        if let (Err(problems), Some(at)) = (&validator, &case.at)
            && !problems.iter().any(|(path, _)| path_matches(path, at))
        {
            wrong.push(format!("{file}: {:?}: the validator does not name {at}: {problems:?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn path_matches(path: &str, at: &str) -> bool {
    path.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[test]
fn p20_the_table_is_large_and_each_rejection_names_its_field() {
    let cases = cases();
    let equal = cases.iter().filter(|(_, case)| matches!(case.verdict, ExpectedVerdict::Both(_))).count();
    assert!(equal >= 60, "only {equal} cases on which both must agree");
    for (file, case) in &cases {
        let rejected = match &case.verdict {
            ExpectedVerdict::Both(answer) => *answer == Decision::Reject,
            ExpectedVerdict::Further { admission, validator, why } => {
                assert_eq!(
                    (*admission, *validator),
                    (Decision::Accept, Decision::Reject),
                    "{file}: {:?}",
                    case.name
                );
                assert!(!why.is_empty(), "{file}: {:?}", case.name);
                true
            }
        };
        assert_eq!(rejected, case.at.is_some(), "{file}: {:?}: `at` goes with a rejection", case.name);
    }
    let mut names: Vec<_> =
        cases.iter().map(|(file, case)| (*file, case.kind(), case.name.as_str())).collect();
    names.sort_unstable();
    names.windows(2).for_each(|pair| assert_ne!(pair[0], pair[1], "a case is there twice"));
}

#[test]
fn every_rule_of_the_crds_compiles() {
    let broken = admission::Crds::new().rules_that_fail_to_compile();
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn every_rule_of_the_crds_is_broken_by_some_object_of_the_table() {
    let crds = admission::Crds::new();
    let mut said = String::new();
    for (_, case) in cases() {
        let old = case.old.clone().map(|old| case.object(Some(old)));
        if let Err(problems) = crds.admit(case.kind(), &case.object(case.spec()), old.as_ref()) {
            said.extend(problems);
        }
    }
    let silent: Vec<_> =
        crds.rule_messages().into_iter().filter(|message| !said.contains(message.as_str())).collect();
    assert!(silent.is_empty(), "no object of the table breaks: {silent:#?}");
}
