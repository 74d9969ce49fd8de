//! What clusterctl wants of two providers: nothing in both, everything in one of them, and a contract that fits.

use std::collections::BTreeSet;

use serde_json::Value;

use super::overlays::{name, of_kind, read_file, rendered_overlay, title};

fn object_titles(overlay: &str) -> BTreeSet<String> {
    rendered_overlay(overlay).iter().map(title).collect()
}

#[test]
fn the_two_providers_share_nothing_and_are_together_the_base() {
    let (infrastructure, control_plane) =
        (object_titles("clusterctl/infrastructure"), object_titles("clusterctl/control-plane"));
    let both: Vec<_> = infrastructure.intersection(&control_plane).collect();
    assert!(both.is_empty(), "{both:?}");
    let together: BTreeSet<_> = infrastructure.union(&control_plane).cloned().collect();
    let missing: Vec<_> = object_titles("base").difference(&together).cloned().collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn each_provider_has_the_crds_with_its_label() {
    for (overlay, provider) in [
        ("clusterctl/infrastructure", "infrastructure-capt"),
        ("clusterctl/control-plane", "control-plane-capt"),
    ] {
        for object in rendered_overlay(overlay) {
            let label = &object["metadata"]["labels"]["cluster.x-k8s.io/provider"];
            assert_eq!(label, provider, "{}", title(&object));
        }
    }
}

#[test]
fn the_contract_of_the_metadata_is_the_label_of_the_crds() {
    let metadata: Value = serde_saphyr::from_str(&read_file("deploy/clusterctl/metadata.yaml")).unwrap();
    assert_eq!(metadata["apiVersion"], "clusterctl.cluster.x-k8s.io/v1alpha3");
    assert_eq!(metadata["kind"], "Metadata");
    let mut version = env!("CARGO_PKG_VERSION").split('.');
    let mut number = || version.next().unwrap().parse::<u64>().unwrap();
    let (major, minor) = (number(), number());
    let series = metadata["releaseSeries"].as_array().unwrap();
    let ours = series.iter().find(|it| it["major"] == major && it["minor"] == minor);
    let contract = ours.expect("the series of this version")["contract"].as_str().unwrap();
    let base = rendered_overlay("base");
    let all = of_kind(&base, "CustomResourceDefinition");
    let is_of_cluster_api =
        |it: &&&Value| it["spec"]["group"].as_str().unwrap().ends_with("cluster.x-k8s.io");
    for crd in all.iter().filter(is_of_cluster_api) {
        let labels = crd["metadata"]["labels"].as_object().unwrap();
        let contracts = labels.keys().filter(|key| key.starts_with("cluster.x-k8s.io/v1"));
        let contracts: Vec<_> = contracts.collect();
        assert_eq!(contracts, [&format!("cluster.x-k8s.io/{contract}")], "{}", name(crd));
    }
}
