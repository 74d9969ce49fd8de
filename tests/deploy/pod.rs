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
    let written = mounts.iter().filter(|it| it["readOnly"] != true);
    let paths: Vec<_> = written.map(|it| it["mountPath"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/var/lib/capt", "/tmp"]);
}

#[test]
fn m8_only_the_operator_gets_a_token_and_it_expires() {
    for overlay in OVERLAYS_WITH_OPERATOR {
        let deployment = deployment(overlay);
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["automountServiceAccountToken"], false, "{overlay}");
        let volumes = pod["volumes"].as_array().unwrap();
        let token = volumes.iter().find(|it| it["name"] == "token").unwrap();
        let sources = token["projected"]["sources"].as_array().unwrap();
        let expires = sources.iter().find_map(|it| it["serviceAccountToken"]["expirationSeconds"].as_u64());
        assert!(expires.is_some_and(|seconds| seconds <= 3607), "{overlay}");
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        let mount = mounts.iter().find(|it| it["name"] == "token").unwrap();
        // Where in-cluster clients look for it.
        assert_eq!(mount["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
        assert_eq!(mount["readOnly"], true);
    }
}

#[test]
fn m8_a_full_disk_of_the_pod_is_not_a_full_disk_of_the_node() {
    for overlay in OVERLAYS_WITH_OPERATOR {
        let deployment = deployment(overlay);
        let pod = &deployment["spec"]["template"]["spec"];
        let gibibytes = |value: &Value| -> u64 {
            let text = value.as_str().unwrap();
            text.strip_suffix("Gi").unwrap().parse().unwrap()
        };
        let volumes = pod["volumes"].as_array().unwrap();
        let volumes = volumes.iter().filter_map(|it| it.get("emptyDir"));
        let sizes: u64 = volumes.map(|it| gibibytes(&it["sizeLimit"])).sum();
        let limit = gibibytes(&pod["containers"][0]["resources"]["limits"]["ephemeral-storage"]);
        assert!(sizes < limit, "{overlay}: the volumes can be filled, and there is room for logs");
    }
}

#[test]
fn m8_replicas_spread_and_a_drain_evicts_one_at_a_time() {
    for overlay in OVERLAYS_WITH_OPERATOR {
        let deployment = deployment(overlay);
        let template = &deployment["spec"]["template"];
        let labels = &template["metadata"]["labels"];
        let selects_pod = |selector: &Value| {
            let wanted = selector["matchLabels"].as_object().unwrap();
            wanted.iter().all(|(key, value)| labels[key] == *value)
        };
        let spread = template["spec"]["topologySpreadConstraints"].as_array().unwrap();
        let keys: Vec<_> = spread.iter().map(|it| it["topologyKey"].as_str().unwrap()).collect();
        assert_eq!(keys, ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]);
        assert!(spread.iter().all(|it| selects_pod(&it["labelSelector"])));
        // Else the surge of a rolling update could not be scheduled on a single node.
        assert!(spread.iter().all(|it| it["whenUnsatisfiable"] == "ScheduleAnyway"));
        let objects = rendered_overlay(overlay);
        let budget = &of_kind(&objects, "PodDisruptionBudget")[0]["spec"];
        assert!(selects_pod(&budget["selector"]), "{overlay}");
        assert_eq!(budget["maxUnavailable"], 1, "a single replica must not block drains");
    }
}

#[test]
fn m9_the_admin_port_of_routers_is_closed_to_other_namespaces_and_the_rest_is_open() {
    let objects = rendered_overlay("router");
    let policy = &of_kind(&objects, "NetworkPolicy")[0]["spec"];
    let rules = policy["ingress"].as_array().unwrap();
    let (open, restricted): (Vec<_>, Vec<_>) = rules.iter().partition(|it| it.get("from").is_none());
    let is_open = |port: u64| {
        let ranges = open.iter().flat_map(|it| it["ports"].as_array().unwrap());
        let within = |it: &Value| {
            let first = it["port"].as_u64().unwrap();
            (first..=it["endPort"].as_u64().unwrap_or(first)).contains(&port)
        };
        ranges.into_iter().any(within)
    };
    assert_eq!([80, 8080, 8081, 8446, 65535].map(is_open), [true, true, false, true, true]);
    assert_eq!(restricted.len(), 1);
    assert_eq!(restricted[0]["ports"], serde_json::json!([{"port": "admin"}]));
    let pod = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["containers"][0]["volumeMounts"][0]["name"], "token");
    assert_eq!(of_kind(&objects, "PodDisruptionBudget")[0]["spec"]["maxUnavailable"], 1);
}

#[test]
fn m8_runs_reach_neither_the_metadata_service_nor_other_ports() {
    for overlay in OVERLAYS_WITH_OPERATOR {
        let objects = rendered_overlay(overlay);
        let policies = of_kind(&objects, "NetworkPolicy");
        let policies = policies.into_iter().map(|it| &it["spec"]);
        let egress: Vec<_> =
            policies.filter(|it| it["policyTypes"] == serde_json::json!(["Egress"])).collect();
        assert_eq!(egress.len(), 1, "{overlay}");
        assert_eq!(egress[0]["podSelector"]["matchLabels"]["app.kubernetes.io/name"], "capt");
        for rule in egress[0]["egress"].as_array().unwrap() {
            let ports = rule["ports"].as_array().unwrap();
            assert!(ports.iter().all(|it| [22, 53, 443, 6443].iter().any(|port| it["port"] == *port)));
            let blocks = rule["to"].as_array().cloned().unwrap_or_default();
            assert_eq!(blocks.is_empty(), ports.iter().all(|it| it["port"] == 53), "{rule}");
            for block in blocks {
                let except = block["ipBlock"]["except"].to_string();
                assert!(except.contains("169.254.0.0/16") || except.contains("fd00:ec2::254"), "{block}");
            }
        }
    }
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
