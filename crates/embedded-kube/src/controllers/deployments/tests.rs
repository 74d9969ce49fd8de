use jiff::Timestamp;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{
    plan::{DeploymentPlan, plan},
    replica_set::{build_replica_set, template_hash},
};

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

fn deployment(replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "a", "uid": "d", "generation": 1, "annotations": {"team": "x"}},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    })
}

/// A cluster in which every pod becomes ready immediately.
struct SimulatedCluster {
    deployment: Value,
    sets: Vec<Value>,
    events: Vec<String>,
}

impl SimulatedCluster {
    fn new(deployment: Value) -> Self {
        Self { deployment, sets: Vec::new(), events: Vec::new() }
    }

    fn step(&mut self) -> bool {
        let DeploymentPlan { create, update, delete, status, events: told, requeue_after: _ } =
            plan(self.deployment.clone(), self.sets.clone(), &[], now());
        let is_idle = create.is_none() && update.is_empty() && delete.is_empty() && status.is_none();
        self.events.extend(told);
        if let Some(mut set) = create {
            set["metadata"]["uid"] = format!("set-{}", self.sets.len()).into();
            set["metadata"]["creationTimestamp"] = format!("2026-01-01T00:0{}:00Z", self.sets.len()).into();
            self.sets.push(set);
        }
        for changed in update {
            let set = self.sets.iter_mut().find(|set| set["metadata"]["uid"] == changed["metadata"]["uid"]);
            *set.unwrap() = changed;
        }
        self.sets.retain(|set| !delete.iter().any(|name| set["metadata"]["name"] == *name));
        if let Some(status) = status {
            self.deployment = status;
        }
        for set in &mut self.sets {
            let size = set["spec"]["replicas"].clone();
            set["status"] = json!({
                "replicas": size, "readyReplicas": size, "availableReplicas": size, "terminatingReplicas": 0,
                "observedGeneration": 1,
            });
        }
        !is_idle
    }

    fn settle(&mut self) {
        for _ in 0..40 {
            if !self.step() {
                return;
            }
        }
        panic!("the deployment does not settle: {:#}", self.deployment);
    }

    fn sizes(&self) -> Vec<i64> {
        self.sets.iter().map(|set| set["spec"]["replicas"].as_i64().unwrap()).collect()
    }

    fn change(&mut self, path: &str, value: Value) {
        *self.deployment.pointer_mut(path).unwrap() = value;
        let generation = self.deployment["metadata"]["generation"].as_i64().unwrap() + 1;
        self.deployment["metadata"]["generation"] = generation.into();
    }

    fn set_image(&mut self, image: &str) {
        self.change("/spec/template/spec/containers/0/image", image.into());
    }

    fn condition(&self, kind: &str) -> &Value {
        let all = self.deployment["status"]["conditions"].as_array().unwrap();
        all.iter().find(|condition| condition["type"] == kind).unwrap()
    }
}

#[test]
fn a_first_pass_makes_a_set_that_is_named_after_its_template() {
    let deployment = deployment(3, "one");
    let plan = plan(deployment.clone(), Vec::new(), &[], now());
    let set = plan.create.unwrap();
    let hash = template_hash(&deployment);
    assert_eq!(set["metadata"]["name"], format!("web-{hash}"));
    assert_eq!(set["metadata"]["labels"], json!({"app": "web", "pod-template-hash": hash}));
    assert_eq!(set["spec"]["selector"]["matchLabels"]["pod-template-hash"], hash);
    assert_eq!(set["spec"]["replicas"], 3);
    assert_eq!(
        set["metadata"]["annotations"],
        json!({
            "team": "x", "deployment.kubernetes.io/revision": "1",
            "deployment.kubernetes.io/desired-replicas": "3", "deployment.kubernetes.io/max-replicas": "4",
        })
    );
    assert_eq!(plan.events, [format!("Scaled up replica set web-{hash} from 0 to 3")]);
    let status = plan.status.unwrap();
    assert_eq!(status["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(
        status["status"],
        json!({
            "observedGeneration": 1, "unavailableReplicas": 3, "terminatingReplicas": 0,
            "conditions": [
                {
                    "type": "Progressing", "status": "True", "reason": "NewReplicaSetCreated",
                    "message": format!("Created new replica set \"web-{hash}\""),
                    "lastUpdateTime": "2026-01-01T00:10:00Z", "lastTransitionTime": "2026-01-01T00:10:00Z",
                },
                {
                    "type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable",
                    "message": "Deployment does not have minimum availability.",
                    "lastUpdateTime": "2026-01-01T00:10:00Z", "lastTransitionTime": "2026-01-01T00:10:00Z",
                },
            ],
        })
    );
}

#[test]
fn the_hash_depends_on_the_template_alone_and_on_collisions() {
    let one = deployment(3, "one");
    let mut other = deployment(5, "one");
    assert_eq!(template_hash(&one), template_hash(&other));
    assert_ne!(template_hash(&one), template_hash(&deployment(3, "two")));
    other["status"]["collisionCount"] = 1.into();
    assert_ne!(template_hash(&one), template_hash(&other));
    assert!(build_replica_set(&one)["metadata"]["name"].as_str().unwrap().len() > 6);
}

#[test]
fn a_rollout_ends_with_all_pods_in_the_new_set_and_says_so() {
    let mut world = SimulatedCluster::new(deployment(3, "one"));
    world.settle();
    assert_eq!(world.sizes(), [3]);
    assert_eq!(world.condition("Progressing")["reason"], "NewReplicaSetAvailable");
    assert_eq!(world.condition("Available")["status"], "True");
    world.set_image("two");
    world.settle();
    assert_eq!(world.sizes(), [0, 3]);
    assert_eq!(world.deployment["status"]["updatedReplicas"], 3);
    assert_eq!(world.deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    let name = world.sets[1]["metadata"]["name"].as_str().unwrap();
    let text = format!("ReplicaSet \"{name}\" has successfully progressed.");
    assert_eq!(world.condition("Progressing")["message"], text.as_str());
}

#[test]
fn a_rollout_never_has_more_pods_than_the_surge_allows_nor_fewer_that_serve() {
    let mut world = SimulatedCluster::new(deployment(4, "one"));
    world.settle();
    world.set_image("two");
    while world.step() {
        let total: i64 = world.sizes().iter().sum();
        assert!((4..=5).contains(&total), "{:?}", world.sizes());
    }
    assert_eq!(world.sizes(), [0, 4]);
}

#[test]
fn going_back_to_an_old_template_uses_its_set_again_and_counts_on() {
    let mut world = SimulatedCluster::new(deployment(2, "one"));
    world.settle();
    world.set_image("two");
    world.settle();
    world.set_image("one");
    world.settle();
    assert_eq!(world.sizes(), [2, 0]);
    let notes = &world.sets[0]["metadata"]["annotations"];
    assert_eq!(notes["deployment.kubernetes.io/revision"], "3");
    assert_eq!(notes["deployment.kubernetes.io/revision-history"], "1");
}

#[test]
fn old_sets_go_once_there_are_more_than_the_limit() {
    let mut world = SimulatedCluster::new(deployment(1, "one"));
    world.change("/spec/revisionHistoryLimit", 1.into());
    for image in ["one", "two", "three", "four"] {
        world.set_image(image);
        world.settle();
    }
    let images: Vec<&Value> =
        world.sets.iter().map(|set| &set["spec"]["template"]["spec"]["containers"][0]["image"]).collect();
    assert_eq!(images, ["three", "four"]);
}

#[test]
fn another_size_is_not_a_rollout() {
    let mut world = SimulatedCluster::new(deployment(3, "one"));
    world.settle();
    world.events.clear();
    world.change("/spec/replicas", 5.into());
    world.settle();
    assert_eq!(world.sizes(), [5]);
    assert_eq!(world.events.len(), 1);
    world.change("/spec/replicas", 0.into());
    world.settle();
    assert_eq!(world.sizes(), [0]);
    assert_eq!(world.deployment["status"].get("replicas"), None);
}

#[test]
fn a_paused_deployment_scales_by_share_but_does_not_roll_on() {
    let mut world = SimulatedCluster::new(deployment(10, "one"));
    world.settle();
    world.set_image("two");
    world.step();
    assert_eq!(world.sizes(), [10, 1]);
    world.deployment["spec"]["paused"] = true.into();
    world.settle();
    assert_eq!(world.sizes(), [10, 1]);
    assert_eq!(world.condition("Progressing")["reason"], "DeploymentPaused");
    world.change("/spec/replicas", 20.into());
    world.settle();
    assert_eq!(world.sizes(), [19, 2]);
    world.deployment["spec"]["paused"] = false.into();
    world.settle();
    assert_eq!(world.sizes(), [0, 20]);
}

#[test]
fn recreate_first_removes_every_old_pod() {
    let mut world = SimulatedCluster::new(deployment(2, "one"));
    world.deployment["spec"]["strategy"] = json!({"type": "Recreate"});
    world.settle();
    world.set_image("two");
    world.step();
    assert_eq!(world.sizes(), [0]);
    let left = [json!({
        "metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "x", "uid": "set-0", "controller": true}]},
        "status": {"phase": "Running"},
    })];
    assert!(plan(world.deployment.clone(), world.sets.clone(), &left, now()).create.is_none());
    world.settle();
    assert_eq!(world.sizes(), [0, 2]);
}

#[test]
fn pods_that_never_serve_stop_a_rollout_and_time_out() {
    let mut world = SimulatedCluster::new(deployment(2, "one"));
    world.settle();
    world.set_image("two");
    world.step();
    world.sets[1]["status"] = json!({"replicas": 1, "observedGeneration": 1, "terminatingReplicas": 0});
    let first = plan(world.deployment.clone(), world.sets.clone(), &[], now());
    assert!(first.update.is_empty(), "nothing old goes before something new serves");
    let waiting = first.status.unwrap();
    let second = plan(waiting.clone(), world.sets.clone(), &[], now());
    assert!(second.status.is_none());
    assert_eq!(second.requeue_after, Some(std::time::Duration::from_secs(601)));
    let later = "2026-01-01T00:20:01Z".parse().unwrap();
    let third = plan(waiting, world.sets.clone(), &[], later);
    let status = third.status.unwrap();
    let conditions = status["status"]["conditions"].as_array().unwrap();
    let progressing = conditions.iter().find(|one| one["type"] == "Progressing").unwrap();
    assert_eq!(progressing["reason"], "ProgressDeadlineExceeded");
    assert_eq!(progressing["status"], "False");
    assert_eq!(third.requeue_after, None);
}

#[test]
fn a_failure_of_a_set_is_a_failure_of_the_deployment_until_it_is_over() {
    let mut world = SimulatedCluster::new(deployment(1, "one"));
    world.step();
    world.sets[0]["status"] = json!({"conditions": [
        {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"},
    ]});
    let failed = plan(world.deployment.clone(), world.sets.clone(), &[], now()).status.unwrap();
    let conditions = failed["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|one| one["type"] == "ReplicaFailure" && one["message"] == "quota"));
    world.deployment = failed;
    world.step();
    world.settle();
    assert!(
        world.deployment["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["type"] != "ReplicaFailure")
    );
}

#[test]
fn a_deployment_that_goes_only_counts() {
    let mut world = SimulatedCluster::new(deployment(2, "one"));
    world.settle();
    world.set_image("two");
    world.deployment["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.settle();
    assert_eq!(world.sizes(), [2]);
}
