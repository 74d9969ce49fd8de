//! How the API server is told about the webhook. Written by somebody else; this only says what.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MatchCondition, RuleWithOperations, ServiceReference, ValidatingWebhook,
        ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;

use crate::api::{
    CaptCluster, CaptClusterTemplate, CaptControlPlane, CaptControlPlaneTemplate, CaptIdentity,
    WorkspaceTemplate, WorkspaceTemplateApply, names,
};

use super::PATH;

/// Name of the configuration, and of the one webhook in it.
pub const NAME: &str = "validate.capt.x-k8s.io";
/// How long the API server waits before it goes on without an answer.
const TIMEOUT_SECONDS: i32 = 5;

/// Where the API server finds the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Behind a Service of the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// At an address such as `https://127.0.0.1:9443`.
    Url(String),
}

impl Target {
    /// The names that the certificate has to be for.
    pub fn names(&self) -> Vec<String> {
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

    fn client(&self, ca_bundle: &str) -> WebhookClientConfig {
        let ca_bundle = Some(ByteString(ca_bundle.as_bytes().to_vec()));
        match self {
            Self::Service { namespace, name, port } => {
                let (namespace, name, port) = (namespace.clone(), name.clone(), Some(i32::from(*port)));
                let service = Some(ServiceReference { name, namespace, path: Some(PATH.to_owned()), port });
                WebhookClientConfig { ca_bundle, service, url: None }
            }
            Self::Url(url) => {
                let url = Some(format!("{}{PATH}", url.trim_end_matches('/')));
                WebhookClientConfig { ca_bundle, service: None, url }
            }
        }
    }
}

/// What to tell the API server. `operator` is the user that capt itself works as: its own writes are not reviewed, because it
/// has to take care of objects that are as they are.
pub fn configuration(
    target: &Target,
    ca_bundle: &str,
    operator: Option<&str>,
) -> ValidatingWebhookConfiguration {
    let labels = BTreeMap::from([(names::PROVIDER_LABEL.to_owned(), "infrastructure-capt".to_owned())]);
    let metadata = ObjectMeta { name: Some(NAME.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    let webhook = ValidatingWebhook {
        name: NAME.to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: target.client(ca_bundle),
        failure_policy: Some("Ignore".to_owned()),
        match_conditions: Some(conditions(operator)),
        match_policy: Some("Equivalent".to_owned()),
        rules: Some(rules()),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
        ..ValidatingWebhook::default()
    };
    ValidatingWebhookConfiguration { metadata, webhooks: Some(vec![webhook]) }
}

fn conditions(operator: Option<&str>) -> Vec<MatchCondition> {
    let condition = |name: &str, expression| MatchCondition { name: name.to_owned(), expression };
    let going = condition("not-being-deleted", "!has(object.metadata.deletionTimestamp)".to_owned());
    let others = operator.map(|user| {
        // JSON's text is CEL's too.
        condition(
            "not-capt-itself",
            format!("request.userInfo.username != {}", serde_json::Value::from(user)),
        )
    });
    [going].into_iter().chain(others).collect()
}

/// Our kinds, when they are made or changed; a status is not their spec.
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
