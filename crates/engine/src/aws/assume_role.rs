//! Credential providers that assume a role, and their cache.
//!
//! The SDK has equivalent providers, but its web identity provider cannot use a local STS endpoint, and the errors of neither
//! name the role.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use aws_config::SdkConfig;
use aws_credential_types::{
    Credentials,
    provider::{self, ProvideCredentials, error::CredentialsError, future},
};
use aws_sdk_sts::{
    Client,
    config::{SharedCredentialsProvider, http::HttpResponse},
    error::{ProvideErrorMetadata, SdkError},
    types,
};
use terraform_driver::clock;
use tokio::sync::Mutex;

use super::{
    principal::RoleHop,
    sdk_error::{AssumeRoleError, is_transient, summarize_sdk_error},
};

/// Credentials are refreshed this long before they expire, so that a token signed with them stays valid for a while.
const REFRESH_BEFORE_EXPIRY: Duration = Duration::from_mins(5);

/// Provides the credentials of an assumed role.
#[derive(Debug)]
pub(super) struct AssumeRoleProvider {
    sts: Client,
    session_name: String,
    method: AssumeRoleMethod,
}

#[derive(Debug)]
enum AssumeRoleMethod {
    Chained { hop: RoleHop, duration: Option<Duration> },
    WebIdentity { role_arn: String, file: PathBuf },
}

impl AssumeRoleProvider {
    /// Assumes a role with the credentials of `sdk`.
    pub(super) fn from_hop(
        sdk: &SdkConfig,
        hop: &RoleHop,
        duration: Option<Duration>,
        session_name: &str,
    ) -> Self {
        let method = AssumeRoleMethod::Chained { hop: hop.clone(), duration };
        Self { sts: Client::new(sdk), session_name: session_name.to_owned(), method }
    }

    /// Assumes a role with a web identity token.
    pub(super) fn from_web_identity(
        sdk: &SdkConfig,
        role_arn: &str,
        file: &Path,
        session_name: &str,
    ) -> Self {
        let method = AssumeRoleMethod::WebIdentity { role_arn: role_arn.to_owned(), file: file.to_owned() };
        Self { sts: Client::new(sdk), session_name: session_name.to_owned(), method }
    }

    fn role_arn(&self) -> &str {
        match &self.method {
            AssumeRoleMethod::Chained { hop, .. } => &hop.role_arn,
            AssumeRoleMethod::WebIdentity { role_arn, .. } => role_arn,
        }
    }

    async fn fetch_credentials(&self) -> provider::Result {
        let given = match &self.method {
            AssumeRoleMethod::Chained { hop, duration } => self.assume_role(hop, *duration).await,
            AssumeRoleMethod::WebIdentity { role_arn, file } => {
                self.assume_role_with_web_identity(role_arn, file).await
            }
        };
        let given = given.map_err(CredentialsError::provider_error)?;
        let expiry = SystemTime::try_from(given.expiration).map_err(CredentialsError::unhandled)?;
        let types::Credentials { access_key_id, secret_access_key, session_token, .. } = given;
        Ok(Credentials::new(access_key_id, secret_access_key, Some(session_token), Some(expiry), "capt"))
    }

    async fn assume_role(
        &self,
        hop: &RoleHop,
        duration: Option<Duration>,
    ) -> Result<types::Credentials, AssumeRoleError> {
        let RoleHop { role_arn, external_id, duration: _, tags } = hop;
        let mut ask = self
            .sts
            .assume_role()
            .role_arn(role_arn)
            .role_session_name(&self.session_name)
            .set_external_id(external_id.clone())
            .set_duration_seconds(duration.and_then(|time| i32::try_from(time.as_secs()).ok()));
        for (key, value) in tags {
            // Cannot fail: key and value are set.
            if let Ok(tag) = types::Tag::builder().key(key).value(value).build() {
                ask = ask.tags(tag);
            }
        }
        let answer = ask.send().await.map_err(|error| self.to_error(&error))?;
        answer.credentials.ok_or_else(|| self.missing_credentials())
    }

    async fn assume_role_with_web_identity(
        &self,
        role_arn: &str,
        file: &Path,
    ) -> Result<types::Credentials, AssumeRoleError> {
        let token = tokio::fs::read_to_string(file).await.map_err(|error| AssumeRoleError {
            role: role_arn.to_owned(),
            reason: format!("cannot read the web identity token file {}: {error}", file.display()),
            transient: false,
        })?;
        let ask = self.sts.assume_role_with_web_identity().role_arn(role_arn);
        let ask = ask.role_session_name(&self.session_name).web_identity_token(token.trim());
        let answer = ask.send().await.map_err(|error| self.to_error(&error))?;
        answer.credentials.ok_or_else(|| self.missing_credentials())
    }

    /// The error of this role, or of an earlier one in the chain.
    fn to_error<E>(&self, error: &SdkError<E, HttpResponse>) -> AssumeRoleError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        AssumeRoleError::find_in(error).cloned().unwrap_or_else(|| AssumeRoleError {
            role: self.role_arn().to_owned(),
            reason: summarize_sdk_error(error),
            transient: is_transient(error),
        })
    }

    fn missing_credentials(&self) -> AssumeRoleError {
        let said = "STS returned no credentials".to_owned();
        AssumeRoleError { role: self.role_arn().to_owned(), reason: said, transient: true }
    }
}

impl ProvideCredentials for AssumeRoleProvider {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.fetch_credentials())
    }
}

/// Caches the credentials of another provider until shortly before they expire. Credentials without an expiry are not cached:
/// changes of a credentials file must take effect.
#[derive(Debug)]
pub(super) struct CachedCredentials {
    inner: SharedCredentialsProvider,
    // Locked during the call, so that concurrent callers share one request.
    cached: Mutex<Option<Credentials>>,
}

impl CachedCredentials {
    pub(super) fn new(inner: impl ProvideCredentials + 'static) -> Self {
        Self { inner: SharedCredentialsProvider::new(inner), cached: Mutex::new(None) }
    }

    async fn credentials(&self) -> provider::Result {
        let mut held = self.cached.lock().await;
        let left = |held: &Credentials| {
            held.expiry()?.duration_since(SystemTime::from(clock::now())).ok().filter(|left| !left.is_zero())
        };
        let usable = held.as_ref().and_then(|held| Some((held.clone(), left(held)?)));
        if let Some((good, _)) = usable.as_ref().filter(|(_, left)| *left > REFRESH_BEFORE_EXPIRY) {
            return Ok(good.clone());
        }
        match self.inner.provide_credentials().await {
            Ok(fresh) => {
                *held = Some(fresh.clone());
                Ok(fresh)
            }
            // The cached credentials are still valid; the next caller retries the refresh.
            Err(error) => usable.map(|(old, _)| old).ok_or(error),
        }
    }
}

impl ProvideCredentials for CachedCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.credentials())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Provides numbered credentials with this lifetime; with `fails_later`, fails from the second call on.
    #[derive(Debug)]
    struct Source {
        life: Option<Duration>,
        fails_later: bool,
        asked: AtomicU32,
    }

    impl Source {
        fn cached(life: Option<Duration>, fails_later: bool) -> CachedCredentials {
            CachedCredentials::new(Self { life, fails_later, asked: AtomicU32::new(0) })
        }
    }

    impl ProvideCredentials for Source {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            let n = self.asked.fetch_add(1, Ordering::Relaxed);
            future::ProvideCredentials::ready(if n > 0 && self.fails_later {
                Err(CredentialsError::not_loaded("gone"))
            } else {
                let end = self.life.map(|life| SystemTime::from(clock::now()) + life);
                Ok(Credentials::new(format!("key-{n}"), "s", None, end, "test"))
            })
        }
    }

    async fn three(cached: &CachedCredentials) -> Vec<String> {
        let mut keys = Vec::new();
        for _ in 0..3 {
            keys.push(cached.credentials().await.unwrap().access_key_id().to_owned());
        }
        keys
    }

    #[tokio::test]
    async fn credentials_are_held_until_they_are_about_to_expire() {
        let long = Source::cached(Some(Duration::from_hours(1)), false);
        assert_eq!(three(&long).await, ["key-0", "key-0", "key-0"]);
        let short = Source::cached(Some(Duration::from_mins(4)), false);
        assert_eq!(three(&short).await, ["key-0", "key-1", "key-2"]);
    }

    #[tokio::test]
    async fn credentials_without_an_end_are_asked_for_each_time() {
        assert_eq!(three(&Source::cached(None, false)).await, ["key-0", "key-1", "key-2"]);
    }

    #[tokio::test]
    async fn old_credentials_serve_while_there_are_no_new_ones() {
        let short = Source::cached(Some(Duration::from_mins(4)), true);
        assert_eq!(three(&short).await, ["key-0", "key-0", "key-0"]);
        let dead = Source::cached(Some(Duration::ZERO), true);
        dead.credentials().await.unwrap();
        assert!(dead.credentials().await.is_err());
    }
}
