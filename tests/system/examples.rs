//! Examples that the other scenarios do not come across, as a reader would try them.

use std::fs;

use super::capt::{Capt, example};

/// Makes it, finds it as it should be, and takes it away.
fn try_out(capt: &Capt, file: &str, between: impl FnOnce(&Capt)) {
    capt.run(&["apply", file, "-o", "json"]).ok();
    let planned = capt.run(&["plan", file, "-o", "json"]).ok();
    assert!(planned.results().iter().all(|(_, result)| result == "unchanged"), "{planned:?}");
    between(capt);
    let destroyed = capt.run(&["destroy", file, "-o", "json"]).ok();
    assert!(destroyed.results().iter().all(|(_, result)| result == "destroyed"), "{destroyed:?}");
}

#[test]
fn a_cluster_of_ones_own_templates_is_made_and_goes() {
    let capt = Capt::new();
    try_out(&capt, &example("template-driven.yaml"), |capt| {
        assert_eq!(capt.count("eks cluster"), 1);
        assert_eq!(capt.count("eks fargate-profile"), 2);
        let endpoint =
            capt.terraform("templated-eks-controlplane", &["output", "-raw", "cluster_endpoint"]).ok();
        assert!(endpoint.stdout.starts_with("https://"), "{}", endpoint.stdout);
    });
}

#[test]
fn a_cluster_moves_into_a_network_that_exists_and_leaves_it_as_it_was() {
    let capt = Capt::new();
    let network = example("network.yaml");
    capt.run(&["apply", &network]).ok();
    let before = capt.inventory();
    let vpc = capt.terraform("shared-network", &["output", "-raw", "vpc_id"]).ok().stdout;
    // What the first lines of the example tell a reader to do.
    let text = fs::read_to_string(example("existing-vpc.yaml")).unwrap();
    let mine =
        capt.write("existing.yaml", &text.replace("vpc-0123456789abcdef0", &vpc)).display().to_string();
    try_out(&capt, &mine, |capt| {
        assert_eq!(capt.count("ec2 vpc"), 1, "no second one");
        assert_eq!(capt.count("eks cluster"), 1);
    });
    assert_eq!(capt.inventory(), before);
}
