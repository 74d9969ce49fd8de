//! A Kubernetes API for tests: embedded-kube in this process, or with `CAPT_TEST_KUBE=real` a real control plane, one for
//! each test. What a test does is the same on both, and a difference is a bug of the embedded one.

#![allow(dead_code, reason = "several test targets share this module, and none uses all of it")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

mod audit;
mod real;

use std::time::{Duration, Instant};

use embedded_kube::{
    auth,
    cluster::{Builder, EmbeddedKube, ListenConfig},
    fault_injection::RequestRecord,
    request::User,
};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::real::RealTestKube;

/// One of them; it ends when it is dropped.
pub(crate) enum TestKube {
    Embedded(EmbeddedKube),
    Real(Box<RealTestKube>),
}

/// Whether tests run on a real control plane.
#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
pub(crate) fn is_real() -> bool {
    match std::env::var("CAPT_TEST_KUBE").as_deref() {
        Ok("real") => true,
        Ok("" | "embedded") | Err(_) => false,
        Ok(other) => panic!("CAPT_TEST_KUBE is embedded or real, not {other}"),
    }
}

impl TestKube {
    /// For this process.
    pub(crate) async fn start() -> Self {
        Self::start_with(EmbeddedKube::builder().in_memory(), &[]).await
    }

    /// For other processes too, and with users: `token-of-ann` is the token of ann.
    pub(crate) async fn start_listening(users: &[(&str, &str)]) -> Self {
        let mut builder = EmbeddedKube::builder().in_memory().listen(ListenConfig::loopback());
        for (name, user) in users {
            builder = builder.token(user_token(name), User { name: (*user).to_owned(), ..User::default() });
        }
        Self::start_with(builder, users).await
    }

    async fn start_with(embedded: Builder, users: &[(&str, &str)]) -> Self {
        if is_real() {
            Self::Real(Box::new(RealTestKube::start(users).await))
        } else {
            Self::Embedded(embedded.start().await.unwrap())
        }
    }

    /// A client as an administrator, who calls itself this.
    pub(crate) fn client(&self, agent: &str) -> Client {
        match self {
            Self::Embedded(kube) => kube.client_with_agent(auth::admin(), agent),
            Self::Real(real) => real.client(agent),
        }
    }

    /// A client as a service account, which has to be there.
    pub(crate) async fn client_as(&self, account: User, agent: &str) -> Client {
        match self {
            Self::Embedded(kube) => kube.client_with_agent(account, agent),
            Self::Real(real) => real.client_as(&account.name, agent).await,
        }
    }

    /// What the accounts of `capt-system` and `shop` asked for, and on the embedded one everybody else, oldest first.
    pub(crate) fn requests(&self) -> Vec<RequestRecord> {
        match self {
            Self::Embedded(kube) => kube.request_log().all(),
            Self::Real(real) => real.requests(),
        }
    }

    /// The administrator's kubeconfig, if it listens; a real one always does.
    pub(crate) fn kubeconfig(&self) -> String {
        match self {
            Self::Embedded(kube) => kube.kubeconfig().unwrap().to_owned(),
            Self::Real(real) => real.kubeconfig(),
        }
    }

    /// The kubeconfig of one of the users.
    pub(crate) fn kubeconfig_for(&self, name: &str) -> String {
        let mut config: Value = serde_saphyr::from_str(&self.kubeconfig()).unwrap();
        config["users"][0]["user"] = json!({ "token": user_token(name) });
        config.to_string()
    }

    /// Stops the server.
    pub(crate) async fn stop(self) {
        match self {
            Self::Embedded(kube) => kube.stop().await,
            Self::Real(real) => drop(real),
        }
    }
}

fn user_token(name: &str) -> String {
    format!("token-of-{name}")
}

/// How long something may take on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(5);

/// Waits until the API server allows this. A real one enforces a new rule with a delay.
pub(crate) async fn wait_until_allowed(admin: &Client, user: &str, attributes: &ResourceAttributes) {
    let reviews: Api<SubjectAccessReview> = Api::all(admin.clone());
    let spec = SubjectAccessReviewSpec {
        user: Some(user.to_owned()),
        resource_attributes: Some(attributes.clone()),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let begun = Instant::now();
    loop {
        let answer = reviews.create(&PostParams::default(), &review).await.unwrap().status;
        if answer.as_ref().is_some_and(|it| it.allowed) {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "{user} may not {attributes:?}: {answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until a kind is served to this client. A real API server serves an established kind, and enforces a new rule, with a
/// delay.
pub(crate) async fn wait_until_served<K>(api: &Api<K>)
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let begun = Instant::now();
    while let Err(error) = api.list(&ListParams::default()).await {
        assert!(begun.elapsed() < TIMEOUT, "{} is not served: {error}", std::any::type_name::<K>());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
