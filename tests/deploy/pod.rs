//! The pod: how it is kept in, how long it may take to stop, what it is given.

use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Service},
    apimachinery::pkg::util::intstr::IntOrString,
};
use serde_json::Value;

use super::overlays::{OVERLAYS, of_kind, rendered_overlay, title};

/// Overlays with a Deployment.
const OVERLAYS_WITH_OPERATOR: [&str; 4] = ["base", "webhook", "standalone", "clusterctl/infrastructure"];

fn deployment(overlay: &str) -> Value {
    let objects = rendered_overlay(overlay);
    let found = of_kind(&objects, "Deployment");
    assert_eq!(found.len(), 1, "{overlay}");
    found[0].clone()
}

#[test]
fn the_container_is_named_as_clusterctl_wants_it() {
    for overlay in OVERLAYS_WITH_OPERATOR {
        let containers = &deployment(overlay)["spec"]["template"]["spec"]["containers"];
        let names: Vec<_> = containers.as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["manager"], "{overlay}");
    }
}

#[test]
fn terraform_has_time_to_stop() {
    for overlay in OVERLAYS_WITH_OPERATOR {
        let grace = deployment(overlay)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64();
        assert!(grace.unwrap() >= 600, "{overlay}: {grace:?}");
    }
}

#[test]
fn f16_the_pods_keep_to_the_restricted_standard_and_need_nothing_of_their_host() {
    for overlay in OVERLAYS_WITH_OPERATOR.into_iter().chain(["router"]) {
        let deployment = deployment(overlay);
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["runAsUser"], 65532);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        let list = |of: &str| pod[of].as_array().cloned().unwrap_or_default();
        for container in list("containers").iter().chain(&list("initContainers")) {
            let inner = &container["securityContext"];
            assert_eq!(inner["readOnlyRootFilesystem"], true);
            assert_eq!(inner["allowPrivilegeEscalation"], false);
            assert_eq!(inner["capabilities"]["drop"], serde_json::json!(["ALL"]));
            assert!(inner["capabilities"].get("add").is_none() && inner.get("privileged").is_none());
            let ports = container["ports"].as_array().cloned().unwrap_or_default();
            assert!(ports.iter().all(|it| it.get("hostPort").is_none()), "{overlay}: {ports:?}");
        }
        for way_out in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(pod.get(way_out).is_none(), "{overlay}: {way_out}");
        }
        for volume in list("volumes") {
            assert!(volume.get("hostPath").is_none(), "{overlay}: {volume}");
        }
        let is_on_every_node = |it: &Value| it["kind"] == "DaemonSet";
        assert!(!rendered_overlay(overlay).iter().any(is_on_every_node), "{overlay}");
    }
    for object in OVERLAYS.iter().flat_map(|overlay| rendered_overlay(overlay)) {
        if object["kind"] == "Namespace" {
            let label = &object["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
            assert_eq!(label, "restricted", "{}", title(&object));
        }
    }
}

#[test]
fn every_place_that_is_written_to_is_a_volume() {
    let deployment = deployment("base");
    let mounts =
        deployment["spec"]["template"]["spec"]["containers"][0]["volumeMounts"].as_array().unwrap().clone();
    let paths: Vec<_> = mounts.iter().map(|it| it["mountPath"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/var/lib/capt", "/tmp"]);
    assert!(mounts.iter().all(|it| it["readOnly"] != true));
}

#[test]
fn it_is_given_what_terraform_needs() {
    let deployment = deployment("base");
    let resources = &deployment["spec"]["template"]["spec"]["containers"][0]["resources"];
    assert_eq!(resources["requests"]["memory"], "2Gi");
    assert_eq!(resources["requests"]["cpu"], "500m");
    assert_eq!(resources["limits"]["memory"], "8Gi");
    assert!(resources["limits"].get("cpu").is_none(), "a throttled terraform holds its locks for longer");
}

#[test]
fn the_next_pod_is_there_before_the_old_one_goes() {
    let deployment: Deployment = serde_json::from_value(deployment("base")).unwrap();
    let rolling = deployment.spec.unwrap().strategy.unwrap().rolling_update.unwrap();
    assert_eq!(rolling.max_surge, Some(IntOrString::Int(1)));
    assert_eq!(rolling.max_unavailable, Some(IntOrString::Int(0)));
}

#[test]
fn probes_and_services_meet_a_port_of_the_container() {
    for overlay in OVERLAYS_WITH_OPERATOR {
        let objects = rendered_overlay(overlay);
        let deployment: Deployment = serde_json::from_value(deployment(overlay)).unwrap();
        let pod = deployment.spec.unwrap().template;
        let container = &pod.spec.unwrap().containers[0];
        let args = container.args.clone().unwrap();
        let ports = container.ports.clone().unwrap();
        // Whatever a port is called, something must be told to listen on it.
        for port in &ports {
            let end = format!(":{}", port.container_port);
            assert!(args.iter().any(|arg| arg.ends_with(&end)), "{overlay}: nothing listens on {end}");
        }
        let named = |port: &IntOrString| match port {
            IntOrString::String(name) => ports.iter().any(|it| it.name.as_deref() == Some(name)),
            IntOrString::Int(number) => ports.iter().any(|it| it.container_port == *number),
        };
        for (probe, path) in [(&container.liveness_probe, "/livez"), (&container.readiness_probe, "/readyz")]
        {
            let get = probe.as_ref().unwrap().http_get.as_ref().unwrap();
            assert_eq!(get.path.as_deref(), Some(path));
            assert!(named(&get.port), "{overlay}: {path}");
        }
        let labels = pod.metadata.unwrap().labels.unwrap();
        for service in of_kind(&objects, "Service") {
            let service: Service = serde_json::from_value(service.clone()).unwrap();
            let spec = service.spec.unwrap();
            assert!(spec.selector.unwrap().iter().all(|(key, value)| labels.get(key) == Some(value)));
            assert!(spec.ports.unwrap().iter().all(|port| named(port.target_port.as_ref().unwrap())));
        }
    }
}

#[test]
fn the_webhook_fails_open_and_is_asked_about_every_kind_of_ours() {
    let objects = rendered_overlay("webhook");
    let webhook = &of_kind(&objects, "ValidatingWebhookConfiguration")[0]["webhooks"][0];
    assert_eq!(webhook["failurePolicy"], "Ignore");
    assert_eq!(webhook["sideEffects"], "None");
    let service = &webhook["clientConfig"]["service"];
    let found = of_kind(&objects, "Service").into_iter().any(|it| {
        it["metadata"]["name"] == service["name"] && it["metadata"]["namespace"] == service["namespace"]
    });
    assert!(found, "{service}");
    let mut asked: Vec<String> = Vec::new();
    for rule in webhook["rules"].as_array().unwrap() {
        let group = rule["apiGroups"][0].as_str().unwrap();
        let plurals = rule["resources"].as_array().unwrap().iter();
        asked.extend(plurals.map(|plural| format!("{}.{group}", plural.as_str().unwrap())));
    }
    asked.sort();
    let mut kinds: Vec<String> =
        capt_kinds::api::cluster_crds().into_iter().filter_map(|crd| crd.metadata.name).collect();
    kinds.sort();
    assert_eq!(asked, kinds);
}
