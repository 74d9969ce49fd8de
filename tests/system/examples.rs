//! Examples that the other scenarios do not come across, as a reader would try them.

use std::fs;

use super::harness::{SystemHarness, example_path};

/// Makes it, finds it as it should be, and takes it away.
fn apply_and_destroy_example(capt: &SystemHarness, file: &str, between: impl FnOnce(&SystemHarness)) {
    capt.run(&["apply", file, "-o", "json"]).expect_success();
    let planned = capt.run(&["plan", file, "-o", "json"]).expect_success();
    assert!(planned.results().iter().all(|(_, result)| result == "unchanged"), "{planned:?}");
    between(capt);
    let destroyed = capt.run(&["destroy", file, "-o", "json"]).expect_success();
    assert!(destroyed.results().iter().all(|(_, result)| result == "destroyed"), "{destroyed:?}");
}

#[test]
fn a_cluster_of_ones_own_templates_is_made_and_goes() {
    let capt = SystemHarness::new();
    apply_and_destroy_example(&capt, &example_path("template-driven.yaml"), |capt| {
        assert_eq!(capt.count_resources("eks cluster"), 1);
        assert_eq!(capt.count_resources("eks fargate-profile"), 2);
        let endpoint = capt
            .terraform("templated-eks-controlplane", &["output", "-raw", "cluster_endpoint"])
            .expect_success();
        assert!(endpoint.stdout.starts_with("https://"), "{}", endpoint.stdout);
    });
}

#[test]
fn a_cluster_moves_into_a_network_that_exists_and_leaves_it_as_it_was() {
    let capt = SystemHarness::new();
    let network = example_path("network.yaml");
    capt.run(&["apply", &network]).expect_success();
    let before = capt.count_resources_by_type();
    let vpc = capt.terraform("shared-network", &["output", "-raw", "vpc_id"]).expect_success().stdout;
    // What the first lines of the example tell a reader to do.
    let text = fs::read_to_string(example_path("existing-vpc.yaml")).unwrap();
    let mine =
        capt.write_file("existing.yaml", &text.replace("vpc-0123456789abcdef0", &vpc)).display().to_string();
    apply_and_destroy_example(&capt, &mine, |capt| {
        assert_eq!(capt.count_resources("ec2 vpc"), 1, "no second one");
        assert_eq!(capt.count_resources("eks cluster"), 1);
    });
    assert_eq!(capt.count_resources_by_type(), before);
}
