//! Who asks (authentication, impersonation) and what they may (RBAC).
//!
//! Nothing here changes objects. Reviews (`TokenReview`, `SubjectAccessReview`, …) are answered from the same two
//! questions that every request is put through.

mod bearer;
mod eks;
mod impersonation;
mod jwt;
mod objects;
mod rbac;
mod review;
pub(crate) mod roles;
mod token_request;

use std::sync::Arc;

use http::HeaderMap;

pub use self::eks::{Access, Accesses, Sts};
pub(crate) use self::{
    bearer::Bearers,
    eks::Eks,
    jwt::{KeyError, Signer},
    objects::Objects,
    rbac::{Attributes, Authorizer, Verdict},
};
use crate::{
    failure::{Answer, Failure},
    request::User,
};

/// Group of everybody who is somebody.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// Group of those who may do everything.
pub(crate) const MASTERS: &str = "system:masters";

/// The server's own administrator, as whom the in-process client asks.
pub fn admin() -> User {
    User {
        name: "kubernetes-admin".to_owned(),
        groups: vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()],
        ..User::default()
    }
}

const UNAUTHENTICATED: &str = "system:unauthenticated";

fn anonymous() -> User {
    User { name: "system:anonymous".to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..User::default() }
}

/// Nobody in particular.
pub(crate) fn is_anonymous(user: &User) -> bool {
    user.groups.iter().any(|group| group == UNAUTHENTICATED)
}

/// Everything that decides about callers of one cluster.
pub(crate) struct Auth {
    bearers: Bearers,
    authorizer: Authorizer,
    objects: Arc<dyn Objects>,
}

impl Auth {
    pub fn new(bearers: Bearers, objects: Arc<dyn Objects>) -> Self {
        Self { bearers, authorizer: Authorizer::new(Arc::clone(&objects)), objects }
    }

    /// The caller, by its `Authorization` header; without one it is nobody in particular.
    pub async fn authenticate(&self, headers: &HeaderMap) -> Answer<User> {
        let Some(header) = headers.get(http::header::AUTHORIZATION) else { return Ok(anonymous()) };
        let token = header.to_str().ok().and_then(bearer::token).unwrap_or_default();
        if token.is_empty() {
            return Ok(anonymous());
        }
        self.bearers.user(token, &*self.objects).await.ok_or_else(Failure::unauthorized)
    }

    /// The user that the caller wants to be taken for, if it may.
    pub fn impersonate(&self, caller: User, headers: &HeaderMap) -> Answer<User> {
        match impersonation::asked(headers)? {
            None => Ok(caller),
            Some(asked) => {
                for attributes in asked.permissions() {
                    self.authorize(&caller, &attributes)?;
                }
                Ok(asked.user())
            }
        }
    }

    /// Refuses what the user may not do.
    pub fn authorize(&self, user: &User, attributes: &Attributes) -> Answer<()> {
        match self.authorizer.decide(user, attributes) {
            Verdict::Allowed(_) => Ok(()),
            Verdict::NoOpinion(reason) => Err(attributes.forbidden(user, &reason)),
        }
    }
}
