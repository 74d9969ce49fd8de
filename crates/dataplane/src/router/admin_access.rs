//! Authorizes callers of the admin port by the API server: who may list Sandboxes of the namespace may read its routes.

use capt_kinds::sandbox::names;
use capt_kube::k8s::{K8sError, KubeClient};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use sandbox_router::proxy::{AdminAccessError, AdminAccessFuture, AdminAuthorizer};
use tokio::sync::Semaphore;

/// Reviews at a time, so that many callers are no load for the API server.
const CONCURRENT_REVIEWS: usize = 4;

/// Asks the API server about each token.
#[derive(Debug)]
pub(super) struct RouteReaders {
    kube: KubeClient,
    namespace: String,
    slots: Semaphore,
}

impl RouteReaders {
    /// For the router of this namespace.
    pub(super) fn new(kube: KubeClient, namespace: &str) -> Self {
        Self { kube, namespace: namespace.to_owned(), slots: Semaphore::new(CONCURRENT_REVIEWS) }
    }

    async fn check(&self, token: &str) -> Result<(), AdminAccessError> {
        let _slot =
            self.slots.acquire().await.map_err(|error| AdminAccessError::Unavailable(error.to_string()))?;
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: None };
        let review = self.kube.create(&TokenReview { spec, ..TokenReview::default() }).await;
        let status = review.map_err(|error| unavailable(&error))?.status.unwrap_or_default();
        let user = status.user.filter(|user| user.username.as_ref().is_some_and(|name| !name.is_empty()));
        let user = user.filter(|_| status.authenticated == Some(true)).ok_or_else(|| {
            AdminAccessError::Unauthenticated("the API server does not recognize the token".to_owned())
        })?;
        let name = user.username.clone().unwrap_or_default();
        let spec = self.access_review(user);
        let review = self.kube.create(&SubjectAccessReview { spec, ..SubjectAccessReview::default() }).await;
        let status = review.map_err(|error| unavailable(&error))?.status.unwrap_or_default();
        if status.allowed && status.denied != Some(true) {
            return Ok(());
        }
        Err(AdminAccessError::Forbidden(format!(
            "{name} may not list sandboxes of {} in {}, whose routes this router has",
            names::GROUP,
            self.namespace
        )))
    }

    fn access_review(&self, user: UserInfo) -> SubjectAccessReviewSpec {
        SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            resource_attributes: Some(ResourceAttributes {
                group: Some(names::GROUP.to_owned()),
                version: Some(names::VERSION.to_owned()),
                resource: Some("sandboxes".to_owned()),
                verb: Some("list".to_owned()),
                namespace: Some(self.namespace.clone()),
                ..ResourceAttributes::default()
            }),
            non_resource_attributes: None,
        }
    }
}

fn unavailable(error: &K8sError) -> AdminAccessError {
    AdminAccessError::Unavailable(error.to_string())
}

impl AdminAuthorizer for RouteReaders {
    fn authorize<'a>(&'a self, token: &'a str) -> AdminAccessFuture<'a> {
        Box::pin(self.check(token))
    }
}
