//! Builds the `ValidatingWebhookConfiguration`. Pure; the operator writes it.

use std::collections::BTreeMap;

use capt_kinds::api::{
    CaptCluster, CaptClusterTemplate, CaptControlPlane, CaptControlPlaneTemplate, CaptIdentity,
    WorkspaceTemplate, WorkspaceTemplateApply, names,
};
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MatchCondition, RuleWithOperations, ServiceReference, ValidatingWebhook,
        ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;

use super::REVIEW_PATH;

/// Name of the configuration, and of the one webhook in it.
pub const WEBHOOK_NAME: &str = "validate.capt.x-k8s.io";
/// How long the API server waits before it ignores the webhook.
const TIMEOUT_SECONDS: i32 = 5;

/// How the API server reaches the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookTarget {
    /// Through a Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// By URL, such as `https://127.0.0.1:9443`.
    Url(String),
}

impl WebhookTarget {
    /// The names that the certificate must cover.
    pub fn certificate_names(&self) -> Vec<String> {
        match self {
            Self::Service { namespace, name, .. } => vec![
                format!("{name}.{namespace}.svc"),
                format!("{name}.{namespace}.svc.cluster.local"),
                format!("{name}.{namespace}"),
            ],
            Self::Url(url) => {
                let host = url.parse::<http::Uri>().ok().and_then(|it| it.host().map(str::to_owned));
                host.map(|it| it.trim_matches(['[', ']']).to_owned()).into_iter().collect()
            }
        }
    }

    fn client_config(&self, ca_bundle: &str) -> WebhookClientConfig {
        let ca_bundle = Some(ByteString(ca_bundle.as_bytes().to_vec()));
        match self {
            Self::Service { namespace, name, port } => {
                let (namespace, name, port) = (namespace.clone(), name.clone(), Some(i32::from(*port)));
                let service =
                    Some(ServiceReference { name, namespace, path: Some(REVIEW_PATH.to_owned()), port });
                WebhookClientConfig { ca_bundle, service, url: None }
            }
            Self::Url(url) => {
                let url = Some(format!("{}{REVIEW_PATH}", url.trim_end_matches('/')));
                WebhookClientConfig { ca_bundle, service: None, url }
            }
        }
    }
}

/// The webhook configuration. Writes of the user `operator` are exempt, because the operator must handle objects as they
/// are.
pub fn webhook_configuration(
    target: &WebhookTarget,
    ca_bundle: &str,
    operator: Option<&str>,
) -> ValidatingWebhookConfiguration {
    let labels = BTreeMap::from([(names::PROVIDER_LABEL.to_owned(), "infrastructure-capt".to_owned())]);
    let metadata =
        ObjectMeta { name: Some(WEBHOOK_NAME.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    let webhook = ValidatingWebhook {
        name: WEBHOOK_NAME.to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: target.client_config(ca_bundle),
        failure_policy: Some("Ignore".to_owned()),
        match_conditions: Some(match_conditions(operator)),
        match_policy: Some("Equivalent".to_owned()),
        rules: Some(rules()),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
        ..ValidatingWebhook::default()
    };
    ValidatingWebhookConfiguration { metadata, webhooks: Some(vec![webhook]) }
}

fn match_conditions(operator: Option<&str>) -> Vec<MatchCondition> {
    let condition = |name: &str, expression| MatchCondition { name: name.to_owned(), expression };
    let going = condition("not-being-deleted", "!has(object.metadata.deletionTimestamp)".to_owned());
    let others = operator.map(|user| {
        // A JSON string is a valid CEL string literal.
        condition(
            "not-capt-itself",
            format!("request.userInfo.username != {}", serde_json::Value::from(user)),
        )
    });
    [going].into_iter().chain(others).collect()
}

/// CREATE and UPDATE of capt's kinds; subresources are excluded.
fn rules() -> Vec<RuleWithOperations> {
    fn plural<K: Resource<DynamicType = ()>>() -> String {
        K::plural(&()).into_owned()
    }
    let infrastructure = vec![
        plural::<CaptCluster>(),
        plural::<CaptClusterTemplate>(),
        plural::<CaptIdentity>(),
        plural::<WorkspaceTemplate>(),
        plural::<WorkspaceTemplateApply>(),
    ];
    let control_plane = vec![plural::<CaptControlPlane>(), plural::<CaptControlPlaneTemplate>()];
    [(names::INFRASTRUCTURE_GROUP, infrastructure), (names::CONTROL_PLANE_GROUP, control_plane)]
        .map(|(group, resources)| RuleWithOperations {
            api_groups: Some(vec![group.to_owned()]),
            api_versions: Some(vec![names::VERSION.to_owned()]),
            operations: Some(vec!["CREATE".to_owned(), "UPDATE".to_owned()]),
            resources: Some(resources),
            scope: Some("*".to_owned()),
        })
        .into()
}
