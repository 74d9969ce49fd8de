//! References into other namespaces.

use super::{
    verdicts::{apply, control_plane},
    *,
};

pub(super) fn foreign_apply() -> Value {
    let spec =
        json!({"templateRef": {"name": "shared", "namespace": "platform"}, "variables": {"who": "me"}});
    object("WorkspaceTemplateApply", &spec)
}

fn foreign(namespace: Annotations, object: &Annotations) -> Cluster {
    let mut shared = template("locals {\n  a = \"${who}\"\n}\n");
    shared["metadata"]["annotations"] = json!(object);
    Cluster {
        templates: [("platform/shared".to_owned(), shared)].into(),
        namespaces: [("platform".to_owned(), namespace)].into(),
        ..Cluster::default()
    }
}

#[tokio::test]
async fn a_reference_into_another_namespace_has_to_be_granted() {
    let none = Annotations::new;
    for (namespace, object, granted) in [
        (none(), none(), false),
        (allows("team-b"), allows("team-c"), false),
        (allows("team-a"), none(), true),
        (none(), allows("team-b, team-a"), true),
        (allows("*"), none(), true),
        (none(), allows("*"), true),
    ] {
        let why = format!("{namespace:?} {object:?}");
        let heard = create(foreign(namespace, &object), &foreign_apply()).await;
        match heard.refusal {
            None => assert!(granted, "{why}"),
            Some(message) => {
                assert!(!granted, "{why}: {message}");
                assert!(
                    message.contains("spec.templateRef: namespace team-a is not permitted to refer to WorkspaceTemplate platform/shared"),
                    "{message}"
                );
                assert!(message.contains("capt.x-k8s.io/allow-references-from: team-a"), "{message}");
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_does_not_tell_what_stands_in_a_template_that_is_not_granted() {
    let mut apply = foreign_apply();
    apply["spec"]["variables"] = json!({});
    let heard = create(foreign(Annotations::new(), &Annotations::new()), &apply).await;
    assert!(!heard.refusal.unwrap().contains("who"));
}

#[tokio::test]
async fn every_kind_of_reference_is_asked_for() {
    let to = json!({"name": "it", "namespace": "platform"});
    let key = json!({"name": "it", "namespace": "platform", "key": "k"});
    let module = json!({"module": "vpc", "region": "eu-central-1"});
    let with = |field: &str, value: Value| {
        let mut spec = module.clone();
        spec[field] = value;
        object("WorkspaceTemplateApply", &spec)
    };
    let profile = json!([{"name": "p", "selectors": [{"namespace": "x"}], "workspaceTemplateRef": to}]);
    let cluster = || Cluster {
        templates: [
            ("platform/it".to_owned(), template("locals {}\n")),
            (
                "team-a/shared".to_owned(),
                template_with(&json!({
                    "source": "Inline", "module": "locals {}\n",
                    "varFiles": [{"source": "SecretKey", "secretKeyRef": key}],
                    "env": [{"name": "A", "configMapKeyRef": key}],
                })),
            ),
        ]
        .into(),
        namespaces: [("platform".to_owned(), Annotations::new())].into(),
        secrets: [("platform/it".to_owned(), Annotations::new())].into(),
        config_maps: [("platform/it".to_owned(), Annotations::new())].into(),
        ..Cluster::default()
    };
    for (object, path) in [
        (
            object("CAPTCluster", &json!({"region": "eu-central-1", "vpcTemplateRef": to})),
            "spec.vpcTemplateRef: Work",
        ),
        (control_plane(&json!({"workspaceTemplateRef": to})), "spec.workspaceTemplateRef: Work"),
        (
            control_plane(&json!({"additionalFargateProfiles": profile})),
            "additionalFargateProfiles[0].workspaceTemplateRef: Work",
        ),
        (
            object(
                "CAPTClusterTemplate",
                &json!({"template": {"spec": {"region": "eu-central-1", "vpcTemplateRef": to}}}),
            ),
            "spec.template.spec.vpcTemplateRef: Work",
        ),
        (with("waitForSecrets", json!([to])), "spec.waitForSecrets[0]: Secret platform/it"),
        (
            with("waitForWorkspaces", json!([to])),
            "spec.waitForWorkspaces[0]: WorkspaceTemplateApply platform/it",
        ),
        (
            with("inputsFrom", json!([{"input": "a", "secretRef": to, "key": "k"}])),
            "spec.inputsFrom[0].secretRef: Secret",
        ),
        (apply(&json!({})), "varFiles[0] of the template: Secret platform/it"),
        (apply(&json!({})), "env[0] of the template: ConfigMap platform/it"),
    ] {
        let refusal = create(cluster(), &object).await.refusal.unwrap_or_default();
        let (field, target) = path.split_once(": ").unwrap();
        assert!(refusal.contains(&format!("{field}: ")), "{path}: {refusal:?}");
        assert!(refusal.contains(&format!("refer to {target}")), "{path}: {refusal:?}");
    }
}

#[tokio::test]
async fn c3_no_grant_lets_a_secret_of_another_namespace_be_written() {
    let to = json!({"name": "it", "namespace": "platform"});
    let spec = json!({"module": "vpc", "region": "eu-central-1", "writeConnectionSecretToRef": to});
    for annotations in [Annotations::new(), allows("*")] {
        let cluster = Cluster {
            namespaces: [("platform".to_owned(), annotations.clone())].into(),
            secrets: [("platform/it".to_owned(), annotations)].into(),
            ..Cluster::default()
        };
        let refusal = create(cluster, &object("WorkspaceTemplateApply", &spec)).await.refusal.unwrap();
        let expected =
            "spec.writeConnectionSecretToRef: namespace team-a is not permitted to write Secret platform/it";
        assert!(refusal.contains(expected), "{refusal}");
    }
}

#[tokio::test]
async fn l6_what_is_not_there_and_what_is_not_granted_are_refused_alike() {
    let to = json!([{"name": "it", "namespace": "platform"}]);
    let there = || [("platform/it".to_owned(), Annotations::new())];
    for field in ["waitForSecrets", "waitForWorkspaces"] {
        let mut spec = json!({"module": "vpc", "region": "eu-central-1"});
        spec[field] = to.clone();
        let refusal = async |cluster| create(cluster, &object("WorkspaceTemplateApply", &spec)).await.refusal;
        let full = Cluster {
            namespaces: [("platform".to_owned(), Annotations::new())].into(),
            secrets: there().into(),
            workspaces: there().into(),
            ..Cluster::default()
        };
        let refused = refusal(full).await;
        assert!(refused.is_some(), "{field}");
        assert_eq!(refused, refusal(Cluster::default()).await);
        let granted =
            Cluster { namespaces: [("platform".to_owned(), allows("team-a"))].into(), ..Cluster::default() };
        assert_eq!(refusal(granted).await, None, "the namespace is granted: what is missing may come later");
    }
}
