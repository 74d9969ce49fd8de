//! Authentication, impersonation and authorization (RBAC).
//!
//! Nothing here writes objects. Reviews (`TokenReview`, `SubjectAccessReview`, …) use the same authenticator and
//! authorizer as every request.

mod bearer;
pub(crate) mod bootstrap_policy;
mod eks;
mod impersonation;
mod jwt;
mod object_reader;
mod rbac;
mod review;
mod token_request;

use std::sync::Arc;

use http::HeaderMap;

pub use self::eks::{AccessEntries, AccessEntry, StsConfig};
pub(crate) use self::{
    bearer::TokenAuthenticator,
    eks::EksAuthenticator,
    jwt::{KeyError, Signer},
    object_reader::ObjectReader,
    rbac::{Attributes, AuthorizationDecision, Authorizer},
};
use crate::{
    request::User,
    status_error::{ApiResult, StatusError},
};

/// Group of every authenticated user.
pub(crate) const SYSTEM_AUTHENTICATED: &str = "system:authenticated";
/// Group that bypasses authorization.
pub(crate) const SYSTEM_MASTERS: &str = "system:masters";

/// The server's own administrator, used by the in-process client.
pub fn admin() -> User {
    User {
        name: "kubernetes-admin".to_owned(),
        groups: vec![SYSTEM_MASTERS.to_owned(), SYSTEM_AUTHENTICATED.to_owned()],
        ..User::default()
    }
}

const SYSTEM_UNAUTHENTICATED: &str = "system:unauthenticated";

fn anonymous() -> User {
    User {
        name: "system:anonymous".to_owned(),
        groups: vec![SYSTEM_UNAUTHENTICATED.to_owned()],
        ..User::default()
    }
}

/// Whether the user is `system:anonymous`.
pub(crate) fn is_anonymous(user: &User) -> bool {
    user.groups.iter().any(|group| group == SYSTEM_UNAUTHENTICATED)
}

/// Authenticator and authorizer of one cluster.
pub(crate) struct Auth {
    authenticator: TokenAuthenticator,
    authorizer: Authorizer,
    objects: Arc<dyn ObjectReader>,
}

impl Auth {
    pub fn new(authenticator: TokenAuthenticator, objects: Arc<dyn ObjectReader>) -> Self {
        Self { authenticator, authorizer: Authorizer::new(Arc::clone(&objects)), objects }
    }

    /// Authenticates by the `Authorization` header; a request without one is anonymous.
    pub async fn authenticate(&self, headers: &HeaderMap) -> ApiResult<User> {
        let Some(header) = headers.get(http::header::AUTHORIZATION) else { return Ok(anonymous()) };
        let token = header.to_str().ok().and_then(bearer::bearer_token).unwrap_or_default();
        if token.is_empty() {
            return Ok(anonymous());
        }
        self.authenticator.authenticate(token, &*self.objects).await.ok_or_else(StatusError::unauthorized)
    }

    /// Applies the impersonation headers, if the caller is allowed to impersonate.
    pub fn impersonate(&self, caller: User, headers: &HeaderMap) -> ApiResult<User> {
        match impersonation::parse_headers(headers)? {
            None => Ok(caller),
            Some(asked) => {
                for attributes in asked.required_permissions() {
                    self.authorize(&caller, &attributes)?;
                }
                Ok(asked.into_user())
            }
        }
    }

    /// Returns 403 unless the user is allowed to perform the request.
    pub fn authorize(&self, user: &User, attributes: &Attributes) -> ApiResult<()> {
        match self.authorizer.decide(user, attributes) {
            AuthorizationDecision::Allowed(_) => Ok(()),
            AuthorizationDecision::NoOpinion(reason) => Err(attributes.forbidden(user, &reason)),
        }
    }
}
