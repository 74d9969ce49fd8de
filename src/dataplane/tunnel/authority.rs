//! Whether somebody may serve a `LocalWorkload`: the API server knows whose a token is, and what they may do. There is no
//! other list of users.

use std::{collections::BTreeMap, future::Future, pin::Pin};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use sandbox::api::{LocalWorkload, names};
use sandbox_router::tunnel::{
    Workload,
    gateway::{Authority, Grant, Refused},
};

use super::words::{grace, told};
use crate::k8s::{K8sError, Kube};

/// Asks the API server.
#[derive(Debug, Clone)]
pub struct ApiServer {
    kube: Kube,
}

impl ApiServer {
    /// Through this client; it has to be allowed to create reviews and to read local workloads.
    pub fn new(kube: Kube) -> Self {
        Self { kube }
    }

    async fn ask(self, token: String, workload: Workload) -> Result<Grant, Refused> {
        let user = self.authenticate(token).await?;
        self.authorize(&user, &workload).await?;
        // Only now: whether it exists is nobody else's business.
        let found = self.kube.get::<LocalWorkload>(Some(workload.namespace()), workload.name()).await;
        let found = found.map_err(|error| unknown(&error))?.ok_or(Refused::Absent)?;
        if found.metadata.deletion_timestamp.is_some() {
            return Err(Refused::Absent);
        }
        let (epoch, holder) = told(&found.status.unwrap_or_default());
        let grace = grace(&found.spec.disconnect_grace_period);
        Ok(Grant { user: user.username.unwrap_or_default(), grace, epoch, holder })
    }

    async fn authenticate(&self, token: String) -> Result<UserInfo, Refused> {
        let spec = TokenReviewSpec { token: Some(token), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let review = self.kube.create(&review).await.map_err(|error| unknown(&error))?;
        let status = review.status.unwrap_or_default();
        let user = status.user.filter(|it| it.username.as_ref().is_some_and(|it| !it.is_empty()));
        match (status.authenticated, user) {
            (Some(true), Some(user)) => Ok(user),
            _ => {
                let why = status.error.filter(|it| !it.is_empty());
                let why = why.unwrap_or_else(|| "the API server does not know it, or no longer".to_owned());
                Err(Refused::Unauthenticated(why))
            }
        }
    }

    async fn authorize(&self, user: &UserInfo, workload: &Workload) -> Result<(), Refused> {
        let review = SubjectAccessReview { spec: question(user, workload), ..SubjectAccessReview::default() };
        let review = self.kube.create(&review).await.map_err(|error| unknown(&error))?;
        let status = review.status.unwrap_or_default();
        if status.allowed && status.denied != Some(true) {
            return Ok(());
        }
        let who = user.username.clone().unwrap_or_default();
        Err(Refused::Forbidden(format!(
            "{who} may not connect to the LocalWorkload {workload}: allow the verb `connect` on \
             `localworkloads/tunnel` of {}",
            names::GROUP
        )))
    }
}

/// May this user `connect` to `localworkloads/tunnel` of that name?
fn question(user: &UserInfo, workload: &Workload) -> SubjectAccessReviewSpec {
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

fn unknown(error: &K8sError) -> Refused {
    Refused::Unknown(error.to_string())
}

impl Authority for ApiServer {
    fn check(
        &self,
        token: String,
        workload: Workload,
    ) -> Pin<Box<dyn Future<Output = Result<Grant, Refused>> + Send>> {
        Box::pin(self.clone().ask(token, workload))
    }
}
