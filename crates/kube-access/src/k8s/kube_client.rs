//! The client of all API calls: a deadline, a result metric and few retries for every call.
//!
//! An unanswered call would block a reconcile for ever, and kube's own retries last for minutes. Here every call has a
//! deadline, and only responses that guarantee that nothing was done (429, 503) are retried.

use std::{sync::Arc, time::Duration};

use kube::{
    Client, Resource,
    core::{
        ObjectList, ObjectMeta,
        params::{GetParams, ListParams},
        request::{self, Request},
    },
};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use super::error::{ApiOperation, K8sError};

/// Deadline of a call, retries included.
pub const DEADLINE: Duration = Duration::from_secs(15);
/// Attempts at a call that the server rejects as overloaded.
const ATTEMPTS: u32 = 3;
/// Delay before the second attempt, unless the server sends Retry-After; doubled for the third.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// Page size of lists.
const PAGE_SIZE: u32 = 500;

/// Result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum CallOutcome {
    /// Answered; `NotFound` is a successful answer to a read.
    Ok,
    /// Rejected, or the connection failed.
    Failed,
    /// No response before the deadline.
    TimedOut,
}

impl CallOutcome {
    /// The outcome as metric label.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Metrics hook for API calls.
pub trait CallMetrics: Send + Sync {
    /// Records one finished call.
    fn record(&self, verb: &'static str, outcome: CallOutcome);
}

/// Records nothing.
impl CallMetrics for () {
    fn record(&self, _verb: &'static str, _outcome: CallOutcome) {}
}

/// A Kubernetes client with a deadline on every call. Cheap to clone.
#[derive(Clone)]
pub struct KubeClient {
    client: Client,
    deadline: Duration,
    metrics: Arc<dyn CallMetrics>,
}

impl std::fmt::Debug for KubeClient {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("KubeClient").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl KubeClient {
    /// A client with the default [`DEADLINE`] and without metrics.
    pub fn new(client: Client) -> Self {
        Self { client, deadline: DEADLINE, metrics: Arc::new(()) }
    }

    /// Sets the deadline.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the metrics hook.
    #[must_use]
    pub fn with_metrics(mut self, tally: Arc<dyn CallMetrics>) -> Self {
        self.metrics = tally;
        self
    }

    /// The same settings for another API server.
    #[must_use]
    pub fn with_client(&self, client: Client) -> Self {
        Self { client, ..self.clone() }
    }

    /// The inner client, for watches: they are long-lived and have their own timeouts.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads an object; `None` if it does not exist.
    pub async fn get<K>(&self, namespace: Option<&str>, name: &str) -> Result<Option<K>, K8sError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
    {
        let operation = kind_operation::<K>("get", namespace, name);
        let request = kind_request::<K>(namespace).get(name, &GetParams::default());
        match self.send(operation, request).await {
            Err(K8sError::NotFound { .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Reads only the metadata of an object; `None` if it does not exist.
    pub async fn get_metadata<K>(
        &self,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<ObjectMeta>, K8sError>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let operation = kind_operation::<K>("get", namespace, name);
        let request = kind_request::<K>(namespace).get_metadata(name, &GetParams::default());
        match self.send::<MetadataOnly>(operation, request).await {
            Err(K8sError::NotFound { .. }) => Ok(None),
            other => Ok(Some(other?.metadata)),
        }
    }

    /// Lists the objects of a kind, in one namespace or in all; label selector as in `kubectl -l`.
    pub async fn list<K>(&self, namespace: Option<&str>, labels: &str) -> Result<Vec<K>, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        let params = ListParams { label_selector: non_empty(labels), ..ListParams::default() };
        self.list_pages::<K, K>(namespace, params, Request::list).await
    }

    /// Lists the objects of a kind by field selector, as in `kubectl --field-selector`.
    pub async fn list_by_field<K>(&self, namespace: Option<&str>, fields: &str) -> Result<Vec<K>, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        let params = ListParams { field_selector: non_empty(fields), ..ListParams::default() };
        self.list_pages::<K, K>(namespace, params, Request::list).await
    }

    /// Lists the objects of a kind; empty if the kind is not served.
    pub async fn list_if_served<K>(&self, namespace: Option<&str>) -> Result<Vec<K>, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        match self.list(namespace, "").await {
            Err(K8sError::NoKind { .. }) => Ok(Vec::new()),
            other => other,
        }
    }

    /// Lists only the metadata of the objects.
    pub async fn list_metadata<K>(
        &self,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<ObjectMeta>, K8sError>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let params = ListParams { label_selector: non_empty(labels), ..ListParams::default() };
        let found = self.list_pages::<K, MetadataOnly>(namespace, params, Request::list_metadata).await?;
        Ok(found.into_iter().map(|one| one.metadata).collect())
    }

    /// Lists all pages of kind `K`, decoding each item as `T`.
    async fn list_pages<K, T>(
        &self,
        namespace: Option<&str>,
        params: ListParams,
        ask: impl Fn(&Request, &ListParams) -> BuiltRequest,
    ) -> Result<Vec<T>, K8sError>
    where
        K: Resource,
        K::DynamicType: Default,
        T: DeserializeOwned + Clone,
    {
        self.fetch_all_pages(
            || kind_operation::<K>("list", namespace, ""),
            params,
            |params| ask(&kind_request::<K>(namespace), params),
        )
        .await
    }

    /// Lists all pages of a path known only at run time.
    pub(super) async fn list_dynamic_pages<T>(
        &self,
        operation: impl Fn() -> ApiOperation,
        path: &Request,
        labels: &str,
    ) -> Result<Vec<T>, K8sError>
    where
        T: DeserializeOwned + Clone,
    {
        let params = ListParams { label_selector: non_empty(labels), ..ListParams::default() };
        self.fetch_all_pages(operation, params, |params| path.list(params)).await
    }

    async fn fetch_all_pages<T>(
        &self,
        operation: impl Fn() -> ApiOperation,
        params: ListParams,
        ask: impl Fn(&ListParams) -> BuiltRequest,
    ) -> Result<Vec<T>, K8sError>
    where
        T: DeserializeOwned + Clone,
    {
        let mut params = params.limit(PAGE_SIZE);
        let mut found = Vec::new();
        loop {
            let page: ObjectList<T> = self.send(operation(), ask(&params)).await?;
            found.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(found),
            }
        }
    }

    /// Sends a request, retrying while the server is overloaded and the deadline allows.
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        operation: ApiOperation,
        request: BuiltRequest,
    ) -> Result<T, K8sError> {
        let request = match request {
            Ok(request) => request,
            Err(source) => return Err(K8sError::Unsendable { operation, source: source.into() }),
        };
        let attempts = async {
            let mut pause = RETRY_DELAY;
            let mut left = ATTEMPTS;
            loop {
                left -= 1;
                let tried = self.client.request(request.clone()).await;
                match tried.map_err(|error| K8sError::from_kube(operation.clone(), error)) {
                    Err(busy) if busy.is_busy() && left > 0 => {
                        sleep(busy.retry_after().unwrap_or(pause)).await;
                    }
                    other => return other,
                }
                pause *= 2;
            }
        };
        self.send_within_deadline(&operation, attempts).await
    }

    /// Runs a call with the deadline and records its result. Every API call goes through here.
    pub(super) async fn send_within_deadline<T>(
        &self,
        operation: &ApiOperation,
        work: impl Future<Output = Result<T, K8sError>>,
    ) -> Result<T, K8sError> {
        let (outcome, result) = match timeout(self.deadline, work).await {
            Ok(Ok(done)) => (CallOutcome::Ok, Ok(done)),
            Ok(Err(gone @ K8sError::NotFound { .. })) if operation.verb == "get" => {
                (CallOutcome::Ok, Err(gone))
            }
            Ok(Err(error)) => (CallOutcome::Failed, Err(error)),
            Err(_) => {
                let error = K8sError::TimedOut { operation: operation.clone(), after: self.deadline };
                (CallOutcome::TimedOut, Err(error))
            }
        };
        self.metrics.record(operation.verb, outcome);
        result
    }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// An object of which only the metadata is decoded.
#[derive(Clone, serde::Deserialize)]
struct MetadataOnly {
    #[serde(default)]
    metadata: ObjectMeta,
}

/// A built request, or why it could not be built.
pub(super) type BuiltRequest = Result<http::Request<Vec<u8>>, request::Error>;

/// A request builder for the path of a kind.
pub(super) fn kind_request<K: Resource>(namespace: Option<&str>) -> Request
where
    K::DynamicType: Default,
{
    Request::new(K::url_path(&K::DynamicType::default(), namespace))
}

/// Describes the operation for errors.
pub(super) fn kind_operation<K: Resource>(
    verb: &'static str,
    namespace: Option<&str>,
    name: &str,
) -> ApiOperation
where
    K::DynamicType: Default,
{
    let kind = K::kind(&K::DynamicType::default()).into_owned();
    let what = match (namespace, name) {
        (Some(namespace), "") => format!("{kind} in {namespace}"),
        (Some(namespace), name) => format!("{kind} {namespace}/{name}"),
        (None, "") => format!("every {kind}"),
        (None, name) => format!("{kind} {name}"),
    };
    ApiOperation { verb, target: what }
}
