//! Authorizes agents for a `LocalWorkload` with a `TokenReview` and a `SubjectAccessReview`. There is no other user database.

use std::{collections::BTreeMap, future::Future, pin::Pin};

use capt_kinds::sandbox::{LocalWorkload, names};
use capt_kube::k8s::{K8sError, KubeClient};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use sandbox_router::tunnel::{
    WorkloadName,
    gateway::{AuthorizeError, Authorizer, SessionGrant},
};

use super::session_status::{epoch_and_holder, grace_period};

/// Authorizes agents by the API server.
#[derive(Debug, Clone)]
pub struct ApiServerAuthority {
    kube: KubeClient,
}

impl ApiServerAuthority {
    /// With this client, which needs permission to create reviews and to read local workloads.
    pub fn new(kube: KubeClient) -> Self {
        Self { kube }
    }

    async fn check_access(
        self,
        token: String,
        workload: WorkloadName,
    ) -> Result<SessionGrant, AuthorizeError> {
        let user = self.authenticate(token).await?;
        self.authorize(&user, &workload).await?;
        // After the authorization, so that the existence of the object is not revealed.
        let found = self.kube.get::<LocalWorkload>(Some(workload.namespace()), workload.name()).await;
        let found = found.map_err(|error| review_failed(&error))?.ok_or(AuthorizeError::NotFound)?;
        if found.metadata.deletion_timestamp.is_some() {
            return Err(AuthorizeError::NotFound);
        }
        let (epoch, holder) = epoch_and_holder(&found.status.unwrap_or_default());
        let grace = grace_period(&found.spec.disconnect_grace_period);
        Ok(SessionGrant { user: user.username.unwrap_or_default(), grace, epoch, holder })
    }

    async fn authenticate(&self, token: String) -> Result<UserInfo, AuthorizeError> {
        let spec = TokenReviewSpec { token: Some(token), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let review = self.kube.create(&review).await.map_err(|error| review_failed(&error))?;
        let status = review.status.unwrap_or_default();
        let user = status.user.filter(|it| it.username.as_ref().is_some_and(|it| !it.is_empty()));
        match (status.authenticated, user) {
            (Some(true), Some(user)) => Ok(user),
            _ => {
                let why = status.error.filter(|it| !it.is_empty());
                let why = why
                    .unwrap_or_else(|| "the API server does not recognize it, or it has expired".to_owned());
                Err(AuthorizeError::Unauthenticated(why))
            }
        }
    }

    async fn authorize(&self, user: &UserInfo, workload: &WorkloadName) -> Result<(), AuthorizeError> {
        let review = SubjectAccessReview {
            spec: access_review_spec(user, workload),
            ..SubjectAccessReview::default()
        };
        let review = self.kube.create(&review).await.map_err(|error| review_failed(&error))?;
        let status = review.status.unwrap_or_default();
        if status.allowed && status.denied != Some(true) {
            return Ok(());
        }
        let who = user.username.clone().unwrap_or_default();
        Err(AuthorizeError::Forbidden(format!(
            "{who} may not connect to LocalWorkload {workload}: grant the verb `connect` on \
             `localworkloads/tunnel` of {}",
            names::GROUP
        )))
    }
}

/// The review: may this user `connect` to `localworkloads/tunnel` of that name?
fn access_review_spec(user: &UserInfo, workload: &WorkloadName) -> SubjectAccessReviewSpec {
    let extra: BTreeMap<String, Vec<String>> = user.extra.clone().unwrap_or_default();
    SubjectAccessReviewSpec {
        user: user.username.clone(),
        uid: user.uid.clone(),
        groups: user.groups.clone(),
        extra: Some(extra),
        resource_attributes: Some(ResourceAttributes {
            group: Some(names::GROUP.to_owned()),
            version: Some(names::VERSION.to_owned()),
            resource: Some("localworkloads".to_owned()),
            subresource: Some("tunnel".to_owned()),
            verb: Some("connect".to_owned()),
            namespace: Some(workload.namespace().to_owned()),
            name: Some(workload.name().to_owned()),
            ..ResourceAttributes::default()
        }),
        non_resource_attributes: None,
    }
}

fn review_failed(error: &K8sError) -> AuthorizeError {
    AuthorizeError::Unavailable(error.to_string())
}

impl Authorizer for ApiServerAuthority {
    fn authorize(
        &self,
        token: String,
        workload: WorkloadName,
    ) -> Pin<Box<dyn Future<Output = Result<SessionGrant, AuthorizeError>> + Send>> {
        Box::pin(self.clone().check_access(token, workload))
    }
}
