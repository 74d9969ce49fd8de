use serde_json::{Value, json};

use super::*;
use crate::controlplane::fixtures::control_plane;

const ARN: &str = "arn:aws:eks:eu-central-1:123456789012:cluster/prod";

struct Case {
    object: CaptControlPlane,
    tag: Option<&'static str>,
    state: Vec<String>,
    adopted: &'static str,
    others: Vec<OtherControlPlane>,
    requires_tag: bool,
}

fn case(spec: &Value) -> Case {
    Case {
        object: control_plane(spec),
        tag: Some("c1"),
        state: vec![ARN.to_owned()],
        adopted: "",
        others: Vec::new(),
        requires_tag: true,
    }
}

fn built_in() -> Case {
    case(&json!({"version": "1.33"}))
}

fn template() -> Case {
    case(&json!({"version": "1.33", "workspaceTemplateRef": {"name": "eks"}}))
}

fn other(uid: &str, created: &str, arn: Option<&str>) -> OtherControlPlane {
    OtherControlPlane {
        uid: uid.to_owned(),
        created: Some(created.parse().unwrap()),
        eks_cluster_arn: arn.map(str::to_owned),
    }
}

impl Case {
    fn with_status(mut self, status: Value) -> Self {
        self.object.status = Some(serde_json::from_value(status).unwrap());
        self
    }

    fn assess(&self, is_reported: bool) -> ClusterOwnership {
        let tags = self.tag.map(|tag| (OWNER_TAG.to_owned(), tag.to_owned()));
        let cluster =
            EksCluster { arn: ARN.to_owned(), tags: tags.into_iter().collect(), ..EksCluster::default() };
        assess_ownership(OwnershipFacts {
            object: &self.object,
            eks_name: "prod",
            cluster: is_reported.then_some(&cluster),
            state_arns: &self.state,
            adopted_arns: &parse_adopted_arns(self.adopted),
            others: &self.others,
            requires_tag: self.requires_tag,
        })
    }

    fn verdict(&self) -> ClusterOwnership {
        self.assess(true)
    }
}

fn proven(awaits_tag: bool) -> ClusterOwnership {
    ClusterOwnership::Proven { arn: ARN.to_owned(), awaits_tag }
}

#[test]
fn c2_state_and_tag_together_prove_a_cluster_and_neither_does_alone() {
    assert_eq!(built_in().verdict(), proven(false));
    assert_eq!(template().verdict(), proven(false));
    let only_tag = Case { state: Vec::new(), ..built_in() };
    assert!(matches!(only_tag.verdict(), ClusterOwnership::Unproven(why) if why.contains("Terraform state")));
    for tag in [None, Some("somebody")] {
        let only_state = Case { tag, ..template() };
        assert!(
            matches!(only_state.verdict(), ClusterOwnership::Unproven(why) if why.contains("capt_owner"))
        );
    }
    let state_of_another = Case { state: vec![format!("{ARN}2")], ..built_in() };
    assert!(matches!(state_of_another.verdict(), ClusterOwnership::Unproven(_)));
}

#[test]
fn c2_the_older_of_two_control_planes_has_the_name() {
    let older = Case { others: vec![other("c0", "2026-11-01T08:00:00Z", Some(ARN))], ..built_in() };
    assert!(matches!(older.verdict(), ClusterOwnership::NameTaken(why) if !why.contains("c0")));
    let younger = Case { others: vec![other("c2", "2026-11-01T09:00:01Z", Some(ARN))], ..built_in() };
    assert_eq!(younger.verdict(), proven(false));
    let elsewhere = other("c0", "2026-11-01T08:00:00Z", Some("arn:aws:eks:us-east-1:1:cluster/prod"));
    assert_eq!(Case { others: vec![elsewhere], ..built_in() }.verdict(), proven(false));
    // The cluster of another object, whatever the state of this one has.
    let tagged =
        Case { tag: Some("c2"), others: vec![other("c2", "2026-11-01T10:00:00Z", None)], ..built_in() };
    assert!(matches!(tagged.verdict(), ClusterOwnership::NameTaken(_)));
}

#[test]
fn c2_a_cluster_of_an_older_version_is_used_until_its_tag_is_there_and_not_longer() {
    let latch = json!({"initialization": {"controlPlaneInitialized": true}});
    let old = Case { tag: None, ..built_in() }.with_status(latch.clone());
    assert_eq!(old.verdict(), proven(true));
    assert_eq!(old.assess(false), ClusterOwnership::Unknown { was_proven: true });
    let stolen = Case { state: Vec::new(), tag: None, ..built_in() }.with_status(latch.clone());
    assert!(matches!(stolen.verdict(), ClusterOwnership::Unproven(_)));
    assert_eq!(stolen.assess(false), ClusterOwnership::Unknown { was_proven: false });
    let by_template = Case { tag: None, ..template() }.with_status(latch);
    assert!(matches!(by_template.verdict(), ClusterOwnership::Unproven(_)));
    let recorded = json!({"initialization": {"controlPlaneInitialized": true}, "eksClusterArn": ARN});
    let lost_tag = Case { tag: None, ..built_in() }.with_status(recorded);
    assert!(matches!(lost_tag.verdict(), ClusterOwnership::Unproven(_)));
    assert_eq!(lost_tag.assess(false), ClusterOwnership::Unknown { was_proven: true });
}

#[test]
fn c2_an_administrator_adopts_by_arn() {
    let text: &'static str = "arn:aws:eks:x:1:cluster/a, arn:aws:eks:eu-central-1:123456789012:cluster/prod";
    let adopted = Case { tag: None, state: Vec::new(), adopted: text, ..template() };
    assert_eq!(adopted.verdict(), proven(false));
    let taken = Case { others: vec![other("c0", "2026-11-01T08:00:00Z", Some(ARN))], ..adopted };
    assert!(matches!(taken.verdict(), ClusterOwnership::NameTaken(_)), "two cannot adopt it");
}

#[test]
fn on_a_laptop_the_state_is_enough_for_a_template() {
    let theirs = Case { tag: None, requires_tag: false, ..template() };
    assert_eq!(theirs.verdict(), proven(false));
    let foreign = Case { state: Vec::new(), ..theirs };
    assert!(matches!(foreign.verdict(), ClusterOwnership::Unproven(_)));
}
