//! The one way to the API server: a deadline on every call, three counters, few retries.
//!
//! A call that nobody answers would hold a reconcile for ever, and kube's own retries go on for minutes. Here a call is
//! over after its deadline, and only answers that say "not now, nothing was done" are followed by another attempt.

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

use super::error::{Deed, K8sError};

/// How long a call may take, retries included.
pub const DEADLINE: Duration = Duration::from_secs(15);
/// Attempts at a call that the server is too busy for.
const ATTEMPTS: u32 = 3;
/// Pause before the second attempt, if the server does not say; doubled for the third.
const PAUSE: Duration = Duration::from_millis(250);
/// Objects in one answer to a list.
const PAGE: u32 = 500;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    /// Answered; "there is no such object" is an answer to a read.
    Ok,
    /// Refused, or the connection failed.
    Failed,
    /// Not answered in time.
    TimedOut,
}

impl Outcome {
    /// The outcome as metric label.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Counts calls. Implemented by whoever makes metrics of them.
pub trait Tally: Send + Sync {
    /// One call with this verb ended like this.
    fn count(&self, verb: &'static str, outcome: Outcome);
}

/// Counts nothing.
impl Tally for () {
    fn count(&self, _verb: &'static str, _outcome: Outcome) {}
}

/// A client whose calls end. Cheap to clone.
#[derive(Clone)]
pub struct Kube {
    client: Client,
    deadline: Duration,
    tally: Arc<dyn Tally>,
}

impl std::fmt::Debug for Kube {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Kube").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl Kube {
    /// Calls through this client, each for at most [`DEADLINE`], counted by nobody.
    pub fn new(client: Client) -> Self {
        Self { client, deadline: DEADLINE, tally: Arc::new(()) }
    }

    /// Another deadline.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Counted by this one.
    #[must_use]
    pub fn with_tally(mut self, tally: Arc<dyn Tally>) -> Self {
        self.tally = tally;
        self
    }

    /// The same manners with another API server.
    #[must_use]
    pub fn towards(&self, client: Client) -> Self {
        Self { client, ..self.clone() }
    }

    /// The client itself, for watches: they last, and have timeouts of their own.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// One object; none if it is not there.
    pub async fn get<K>(&self, namespace: Option<&str>, name: &str) -> Result<Option<K>, K8sError>
    where
        K: Resource + DeserializeOwned,
        K::DynamicType: Default,
    {
        let deed = deed::<K>("get", namespace, name);
        let request = path::<K>(namespace).get(name, &GetParams::default());
        match self.send(deed, request).await {
            Err(K8sError::NotFound { .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    /// The metadata of one object, without the rest; none if it is not there.
    pub async fn get_metadata<K>(
        &self,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<ObjectMeta>, K8sError>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let deed = deed::<K>("get", namespace, name);
        let request = path::<K>(namespace).get_metadata(name, &GetParams::default());
        match self.send::<OnlyMeta>(deed, request).await {
            Err(K8sError::NotFound { .. }) => Ok(None),
            other => Ok(Some(other?.metadata)),
        }
    }

    /// All objects of a kind, in one namespace or in all; labels as in `kubectl -l`.
    pub async fn list<K>(&self, namespace: Option<&str>, labels: &str) -> Result<Vec<K>, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        let params = ListParams { label_selector: some(labels), ..ListParams::default() };
        self.pages::<K, K>(namespace, params, Request::list).await
    }

    /// All objects of a kind whose fields are like this, as in `kubectl --field-selector`.
    pub async fn list_by_field<K>(&self, namespace: Option<&str>, fields: &str) -> Result<Vec<K>, K8sError>
    where
        K: Resource + DeserializeOwned + Clone,
        K::DynamicType: Default,
    {
        let params = ListParams { field_selector: some(fields), ..ListParams::default() };
        self.pages::<K, K>(namespace, params, Request::list).await
    }

    /// All objects of a kind; none where the API server does not know it.
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

    /// The metadata of all such objects, without the rest.
    pub async fn list_metadata<K>(
        &self,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<ObjectMeta>, K8sError>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let params = ListParams { label_selector: some(labels), ..ListParams::default() };
        let found = self.pages::<K, OnlyMeta>(namespace, params, Request::list_metadata).await?;
        Ok(found.into_iter().map(|one| one.metadata).collect())
    }

    /// Pages of a list until the last one. What is read of the objects may be less than the objects.
    async fn pages<K, T>(
        &self,
        namespace: Option<&str>,
        params: ListParams,
        ask: impl Fn(&Request, &ListParams) -> Asked,
    ) -> Result<Vec<T>, K8sError>
    where
        K: Resource,
        K::DynamicType: Default,
        T: DeserializeOwned + Clone,
    {
        self.turn(|| deed::<K>("list", namespace, ""), params, |params| ask(&path::<K>(namespace), params))
            .await
    }

    /// The same of a path that is known only at run time.
    pub(super) async fn pages_of<T>(
        &self,
        deed: impl Fn() -> Deed,
        path: &Request,
        labels: &str,
    ) -> Result<Vec<T>, K8sError>
    where
        T: DeserializeOwned + Clone,
    {
        let params = ListParams { label_selector: some(labels), ..ListParams::default() };
        self.turn(deed, params, |params| path.list(params)).await
    }

    async fn turn<T>(
        &self,
        deed: impl Fn() -> Deed,
        params: ListParams,
        ask: impl Fn(&ListParams) -> Asked,
    ) -> Result<Vec<T>, K8sError>
    where
        T: DeserializeOwned + Clone,
    {
        let mut params = params.limit(PAGE);
        let mut found = Vec::new();
        loop {
            let page: ObjectList<T> = self.send(deed(), ask(&params)).await?;
            found.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(found),
            }
        }
    }

    /// Sends a request until it is answered with something else than "not now", or the deadline is over.
    pub(super) async fn send<T: DeserializeOwned>(&self, deed: Deed, request: Asked) -> Result<T, K8sError> {
        let request = match request {
            Ok(request) => request,
            Err(source) => return Err(K8sError::Unsendable { deed, source: source.into() }),
        };
        let attempts = async {
            let mut pause = PAUSE;
            let mut left = ATTEMPTS;
            loop {
                left -= 1;
                let tried = self.client.request(request.clone()).await;
                match tried.map_err(|error| K8sError::of(deed.clone(), error)) {
                    Err(busy) if busy.is_busy() && left > 0 => {
                        sleep(busy.retry_after().unwrap_or(pause)).await;
                    }
                    other => return other,
                }
                pause *= 2;
            }
        };
        self.call(&deed, attempts).await
    }

    /// Waits for a call until the deadline, and counts it. Everything that leaves this process goes through here.
    pub(super) async fn call<T>(
        &self,
        deed: &Deed,
        work: impl Future<Output = Result<T, K8sError>>,
    ) -> Result<T, K8sError> {
        let (outcome, result) = match timeout(self.deadline, work).await {
            Ok(Ok(done)) => (Outcome::Ok, Ok(done)),
            Ok(Err(gone @ K8sError::NotFound { .. })) if deed.verb == "get" => (Outcome::Ok, Err(gone)),
            Ok(Err(error)) => (Outcome::Failed, Err(error)),
            Err(_) => {
                let error = K8sError::TimedOut { deed: deed.clone(), after: self.deadline };
                (Outcome::TimedOut, Err(error))
            }
        };
        self.tally.count(deed.verb, outcome);
        result
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// An object of which nothing else is looked at.
#[derive(Clone, serde::Deserialize)]
struct OnlyMeta {
    #[serde(default)]
    metadata: ObjectMeta,
}

/// A request, or why there is none.
pub(super) type Asked = Result<http::Request<Vec<u8>>, request::Error>;

/// Where the objects of a kind are, in one namespace or in none.
pub(super) fn path<K: Resource>(namespace: Option<&str>) -> Request
where
    K::DynamicType: Default,
{
    Request::new(K::url_path(&K::DynamicType::default(), namespace))
}

/// What is about to be asked.
pub(super) fn deed<K: Resource>(verb: &'static str, namespace: Option<&str>, name: &str) -> Deed
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
    Deed { verb, what }
}
