//! Baselines that cannot be forked, and pods that Fargate does not support.

use std::collections::BTreeMap;

use capt_kinds::sandbox::conditions::reasons;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use serde_json::Value;

use crate::{
    namespace_context::NamespaceContext,
    rejection::Rejection,
    template::{PodTemplate, array_items},
};

/// Rejects resources that only one pod can hold: exclusive volumes, host ports. `workload` is the patched baseline, because a
/// patch may remove them.
pub fn check_exclusive_resources(workload: &Value, around: &NamespaceContext<'_>) -> Result<(), Rejection> {
    let template = PodTemplate::from_workload(workload);
    let advice = "remove it with customizations.patch";
    for (volume, claim) in mounted_claims(template) {
        let found = around.claims.iter().find(|it| it.name_any() == claim);
        if let Some(mode) = found.and_then(exclusive_mode) {
            let what = format!(
                "volume {volume} is the claim {claim} with {mode}, which the baseline's pods hold; {advice}"
            );
            return Err(Rejection::new(reasons::SHARED_VOLUME, what));
        }
    }
    if template.spec()["hostNetwork"].as_bool() == Some(true) {
        let what = format!("hostNetwork: the baseline's pods hold the ports of their hosts; {advice}");
        return Err(Rejection::new(reasons::HOST_PORT, what));
    }
    match host_port(template) {
        Some((container, port)) => {
            let what = format!(
                "container {container} takes hostPort {port}, which the baseline's pods hold; {advice}"
            );
            Err(Rejection::new(reasons::HOST_PORT, what))
        }
        None => Ok(()),
    }
}

/// Rejects pods that Fargate does not support. Checked before the apply, because such pods stay pending forever.
pub fn check_fargate_support(workload: &Value, around: &NamespaceContext<'_>) -> Result<(), Rejection> {
    let template = PodTemplate::from_workload(workload);
    let found = unsupported_pod_field(template)
        .or_else(|| template.all_containers().find_map(unsupported_container_field))
        .or_else(|| unsupported_volume(template, around));
    match found {
        Some(what) => Err(Rejection::new(
            reasons::NOT_SUPPORTED_ON_FARGATE,
            format!("Fargate does not run pods with {what}; remove it with customizations.patch"),
        )),
        None => Ok(()),
    }
}

/// Notes on a fork on Fargate, which sizes pods by their requests.
pub fn fargate_notes(workload: &Value) -> Vec<String> {
    let without = |container: &&Value| {
        let requests = &container["resources"]["requests"];
        requests["cpu"].is_null() || requests["memory"].is_null()
    };
    let names: Vec<_> =
        PodTemplate::from_workload(workload).containers().filter(without).map(container_name).collect();
    if names.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "no requests of cpu and memory in {}: Fargate gives the pod 0.25 vCPU and 0.5 GB",
        names.join(", ")
    )]
}

/// Volume and claim names of the claims that a pod mounts.
fn mounted_claims(template: PodTemplate<'_>) -> impl Iterator<Item = (&str, &str)> {
    array_items(&template.spec()["volumes"]).filter_map(|volume| {
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str()?;
        Some((volume["name"].as_str().unwrap_or_default(), claim))
    })
}

/// The access mode of a claim, if it restricts the claim to one node or pod.
fn exclusive_mode(claim: &PersistentVolumeClaim) -> Option<&str> {
    let modes = claim.spec.as_ref()?.access_modes.as_ref()?;
    let is_shared = modes.iter().any(|it| it == "ReadWriteMany" || it == "ReadOnlyMany");
    if is_shared { None } else { modes.first().map(String::as_str) }
}

fn host_port(template: PodTemplate<'_>) -> Option<(&str, i64)> {
    template.all_containers().find_map(|container| {
        let port =
            array_items(&container["ports"]).filter_map(|it| it["hostPort"].as_i64()).find(|it| *it > 0)?;
        Some((container_name(container), port))
    })
}

fn container_name(container: &Value) -> &str {
    container["name"].as_str().unwrap_or_default()
}

fn unsupported_pod_field(template: PodTemplate<'_>) -> Option<String> {
    let spec = template.spec();
    let on = |field: &&str| spec[*field].as_bool() == Some(true);
    if let Some(field) = ["hostNetwork", "hostPID", "hostIPC"].iter().find(|it| on(it)) {
        return Some((*field).to_owned());
    }
    host_port(template).map(|(container, port)| format!("hostPort {port} of container {container}"))
}

fn unsupported_container_field(container: &Value) -> Option<String> {
    let (name, security) = (container_name(container), &container["securityContext"]);
    if security["privileged"].as_bool() == Some(true) {
        return Some(format!("the privileged container {name}"));
    }
    let mut added = array_items(&security["capabilities"]["add"]).filter_map(Value::as_str);
    let refused = |it: &&str| {
        let it = it.strip_prefix("CAP_").unwrap_or(it);
        matches!(it, "ALL" | "NET_ADMIN" | "SYS_ADMIN" | "SYS_MODULE" | "SYS_RAWIO" | "BPF")
    };
    if let Some(capability) = added.find(refused) {
        return Some(format!("the capability {capability} of container {name}"));
    }
    let resources = &container["resources"];
    let asked = ["limits", "requests"].iter().filter_map(|it| resources[*it].as_object());
    let device = asked.flat_map(|it| it.keys()).find(|it| it.ends_with("/gpu") || it.ends_with("/neuron"));
    device.map(|it| format!("the device {it} of container {name}"))
}

fn unsupported_volume(template: PodTemplate<'_>, around: &NamespaceContext<'_>) -> Option<String> {
    let host = array_items(&template.spec()["volumes"]).find(|it| !it["hostPath"].is_null());
    if let Some(volume) = host {
        return Some(format!("the hostPath volume {}", volume["name"].as_str().unwrap_or_default()));
    }
    let none = BTreeMap::new();
    let provisioners = around.provisioners.unwrap_or(&none);
    mounted_claims(template).find_map(|(volume, claim)| {
        let claim_object = around.claims.iter().find(|it| it.name_any() == claim)?;
        is_ebs(claim_object, provisioners).then(|| format!("the EBS volume {volume} (claim {claim})"))
    })
}

fn is_ebs(claim: &PersistentVolumeClaim, provisioners: &BTreeMap<String, String>) -> bool {
    const EBS: [&str; 2] = ["ebs.csi.aws.com", "kubernetes.io/aws-ebs"];
    let annotations = claim.annotations();
    let written =
        ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"]
            .iter()
            .find_map(|it| annotations.get(*it));
    let class = claim.spec.as_ref().and_then(|it| it.storage_class_name.as_ref());
    let driver = written.or_else(|| provisioners.get(class?));
    driver.is_some_and(|it| EBS.contains(&it.as_str()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn workload(pod: &Value) -> Value {
        json!({"metadata": {"name": "cart"}, "spec": {"template": {"spec": pod}}})
    }

    fn claim(name: &str, mode: &str, class: &str) -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"accessModes": [mode], "storageClassName": class}
        }))
        .unwrap()
    }

    fn mounting(claim: &str) -> Value {
        workload(&json!({
            "containers": [{"name": "app"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        }))
    }

    #[rstest]
    #[case("ReadWriteOnce", false)]
    #[case("ReadWriteOncePod", false)]
    #[case("ReadWriteMany", true)]
    #[case("ReadOnlyMany", true)]
    fn a_volume_for_one_pod_is_not_shared(#[case] mode: &str, #[case] fine: bool) {
        let claims = [claim("cart-data", mode, "efs")];
        let verdict = check_exclusive_resources(
            &mounting("cart-data"),
            &NamespaceContext { claims: &claims, ..NamespaceContext::default() },
        );
        match verdict {
            Ok(()) => assert!(fine),
            Err(refusal) => {
                assert!(!fine);
                assert_eq!(refusal.reason, "SharedVolume");
                assert!(refusal.message.contains("cart-data") && refusal.message.contains(mode), "{refusal}");
            }
        }
    }

    #[rstest]
    #[case(json!({"hostNetwork": true}), "hostNetwork")]
    #[case(json!({"containers": [{"name": "app", "ports": [{"containerPort": 80, "hostPort": 8080}]}]}), "8080")]
    #[case(json!({"initContainers": [{"name": "app", "ports": [{"hostPort": 53}]}]}), "53")]
    fn a_port_of_the_host_is_not_shared(#[case] pod: Value, #[case] word: &str) {
        let refusal = check_exclusive_resources(&workload(&pod), &NamespaceContext::default()).unwrap_err();
        assert_eq!(refusal.reason, "HostPort");
        assert!(refusal.message.contains(word), "{refusal}");
    }

    #[rstest]
    #[case(json!({"hostNetwork": true}), "hostNetwork")]
    #[case(json!({"hostPID": true}), "hostPID")]
    #[case(json!({"containers": [{"name": "a", "securityContext": {"privileged": true}}]}), "privileged container a")]
    #[case(json!({"containers": [{"name": "a", "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}]}), "NET_ADMIN")]
    #[case(json!({"initContainers": [{"name": "a", "securityContext": {"capabilities": {"add": ["CAP_NET_ADMIN"]}}}]}), "NET_ADMIN")]
    #[case(json!({"volumes": [{"name": "logs", "hostPath": {"path": "/var/log"}}]}), "hostPath volume logs")]
    #[case(json!({"containers": [{"name": "a", "ports": [{"hostPort": 80}]}]}), "hostPort 80")]
    #[case(json!({"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}), "nvidia.com/gpu")]
    fn what_fargate_refuses_is_refused_before_it_is_made(#[case] pod: Value, #[case] words: &str) {
        let refusal = check_fargate_support(&workload(&pod), &NamespaceContext::default()).unwrap_err();
        assert_eq!(refusal.reason, "NotSupportedOnFargate");
        assert!(refusal.message.contains(words), "{refusal}");
    }

    #[test]
    fn ebs_is_refused_by_fargate_and_efs_is_not() {
        let provisioners = BTreeMap::from([
            ("gp3".to_owned(), "ebs.csi.aws.com".to_owned()),
            ("efs".to_owned(), "efs.csi.aws.com".to_owned()),
        ]);
        let claims = [claim("on-ebs", "ReadWriteMany", "gp3"), claim("on-efs", "ReadWriteMany", "efs")];
        let around = NamespaceContext {
            claims: &claims,
            provisioners: Some(&provisioners),
            ..NamespaceContext::default()
        };
        assert!(check_fargate_support(&mounting("on-ebs"), &around).unwrap_err().message.contains("on-ebs"));
        assert_eq!(check_fargate_support(&mounting("on-efs"), &around), Ok(()));
        assert_eq!(check_fargate_support(&mounting("unknown"), &around), Ok(()));
    }

    #[test]
    fn an_ordinary_pod_is_fine_everywhere_and_told_of_missing_requests() {
        let pod = workload(&json!({
            "containers": [
                {"name": "app", "ports": [{"containerPort": 80}], "securityContext": {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}},
                {"name": "side", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
            ],
            "volumes": [{"name": "tmp", "emptyDir": {}}]
        }));
        assert_eq!(check_exclusive_resources(&pod, &NamespaceContext::default()), Ok(()));
        assert_eq!(check_fargate_support(&pod, &NamespaceContext::default()), Ok(()));
        let notes = fargate_notes(&pod);
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("in app:"), "{notes:?}");
    }
}
