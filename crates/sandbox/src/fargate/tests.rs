use rstest::rstest;

use super::*;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn selector(namespace: &str, pairs: &[(&str, &str)]) -> Selector {
    Selector { namespace: namespace.to_owned(), labels: labels(pairs) }
}

fn profile(name: &str, selectors: &[Selector]) -> Profile {
    Profile { name: name.to_owned(), selectors: selectors.to_vec() }
}

fn ours() -> Labels {
    labels(&[
        (names::FORK_LABEL, "cart-pr-1-aaaa"),
        (names::SANDBOX_LABEL, "pr-1"),
        (names::BASELINE_LABEL, "cart"),
    ])
}

#[rstest]
#[case("shop", &[], true)]
#[case("shop*", &[], true)]
#[case("sh?p", &[], true)]
#[case("*", &[], true)]
#[case("?shop", &[], false)]
#[case("shop?", &[], false)]
#[case("Shop", &[], false)]
#[case("sho", &[], false)]
#[case("shop", &[("app", "cart")], true)]
#[case("shop", &[("app", "car?")], true)]
#[case("shop", &[("app", "*")], true)]
#[case("shop", &[("app", "c*t")], true)]
#[case("shop", &[("app", "cart?")], false)]
#[case("shop", &[("ap*", "cart")], true)]
#[case("shop", &[("*", "cart")], true)]
#[case("shop", &[("a?p", "c*")], true)]
#[case("shop", &[("*", "*")], true)]
#[case("shop", &[("app", "cart"), ("tier", "web")], true)]
#[case("shop", &[("app", "cart"), ("tier", "db")], false)]
#[case("shop", &[("team", "*")], false)]
#[case("other", &[("app", "cart")], false)]
#[case("shop", &[("app", "[c]art")], false)]
#[case("shop", &[("app", "c.rt")], false)]
fn f16_selectors_match_by_the_globs_of_eks(
    #[case] namespace: &str,
    #[case] wanted: &[(&str, &str)],
    #[case] expected: bool,
) {
    let pod = labels(&[("app", "cart"), ("tier", "web")]);
    assert_eq!(selects(&selector(namespace, wanted), "shop", &pod), expected);
}

struct Scene {
    baseline: Labels,
    profiles: Vec<Profile>,
    nodes: bool,
    /// Labels by which a Service finds the baseline.
    service: Labels,
}

impl Scene {
    fn place(&self) -> Placement {
        let fork = ours();
        let pods = ForkPods { namespace: "shop", baseline: &self.baseline, fork: &fork };
        let compute = ClusterCompute { profiles: &self.profiles, has_nodes: self.nodes };
        choose_placement(pods, compute, |all| crate::labels::has_all(&self.service, all))
    }
}

fn scene(profiles: &[Profile]) -> Scene {
    Scene {
        baseline: labels(&[("app", "cart"), ("compute", "fargate")]),
        profiles: profiles.to_vec(),
        nodes: false,
        service: labels(&[("app", "cart")]),
    }
}

#[test]
fn one_profile_that_takes_all_forks_is_enough() {
    let all = scene(&[profile("sandboxes", &[selector("*", &[(names::FORK_LABEL, "*")])])]);
    assert_eq!(all.place(), Placement::Fargate { profile: "sandboxes".into(), labels: Labels::new() });
}

#[test]
fn of_several_profiles_the_first_by_name_is_said_aloud() {
    let both = scene(&[profile("b", &[selector("shop", &[])]), profile("a", &[selector("*", &[])])]);
    let expected =
        Placement::Fargate { profile: "a".into(), labels: labels(&[(names::FARGATE_PROFILE_LABEL, "a")]) };
    assert_eq!(both.place(), expected);
}

#[test]
fn the_profile_that_the_baseline_asks_for_is_kept_if_it_takes_the_fork() {
    let mut both = scene(&[profile("b", &[selector("shop", &[])]), profile("a", &[selector("*", &[])])]);
    both.baseline.insert(names::FARGATE_PROFILE_LABEL.into(), "b".into());
    let expected =
        Placement::Fargate { profile: "b".into(), labels: labels(&[(names::FARGATE_PROFILE_LABEL, "b")]) };
    assert_eq!(both.place(), expected);
}

#[test]
fn labels_that_a_profile_wants_are_kept_if_no_service_follows_them() {
    let by_label = scene(&[profile("on-fargate", &[selector("shop", &[("compute", "fargate")])])]);
    let expected =
        Placement::Fargate { profile: "on-fargate".into(), labels: labels(&[("compute", "fargate")]) };
    assert_eq!(by_label.place(), expected);
}

#[test]
fn f16_a_fork_that_no_profile_selects_has_no_place_and_hears_which_selector_to_add() {
    let only_by_app = scene(&[profile("carts", &[selector("shop", &[("app", "cart")])])]);
    let Placement::Unschedulable(why) = only_by_app.place() else { panic!("{:?}", only_by_app.place()) };
    assert!(why.contains("\"shop\"") && why.contains(names::FORK_LABEL), "{why}");
    let elsewhere = scene(&[profile("system", &[selector("kube-system", &[])])]);
    assert_eq!(elsewhere.place().reason(), "NoFargateProfile");
}

#[test]
fn where_there_are_nodes_a_fork_may_run_on_them() {
    for profiles in [vec![], vec![profile("carts", &[selector("shop", &[("app", "cart")])])]] {
        let with_nodes = Scene { nodes: true, ..scene(&profiles) };
        assert_eq!(with_nodes.place(), Placement::Nodes);
    }
    assert_eq!(scene(&[]).place().reason(), "NoFargateProfile");
}

#[test]
fn a_second_selector_is_tried_when_the_first_would_mislead() {
    let two =
        scene(&[profile("p", &[selector("shop", &[("app", "*")]), selector("shop", &[("compute", "*")])])]);
    let expected = Placement::Fargate { profile: "p".into(), labels: labels(&[("compute", "fargate")]) };
    assert_eq!(two.place(), expected);
}

#[test]
fn a_fork_waits_as_long_as_fargate_takes() {
    let of = |spec: serde_json::Value| {
        let mut fork = serde_json::json!({ "spec": spec });
        extend_progress_deadline(&mut fork);
        fork["spec"].clone()
    };
    assert_eq!(of(serde_json::json!({"progressDeadlineSeconds": 60}))["progressDeadlineSeconds"], 600);
    assert_eq!(of(serde_json::json!({"progressDeadlineSeconds": 900}))["progressDeadlineSeconds"], 900);
    assert_eq!(of(serde_json::json!({})), serde_json::json!({}), "the API server's own is long enough");
}
