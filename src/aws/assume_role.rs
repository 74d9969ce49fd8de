//! Credentials of roles: how they are had, and how long they are kept.
//!
//! The SDK has providers for both, but that for web identities cannot be sent to a local STS, and neither tells in its
//! error which role it was.

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
    fault::{SessionError, brief, is_transient},
    principal::Hop,
};

/// Credentials are replaced this long before they expire, so that a token made with them lives for a while.
const EARLY: Duration = Duration::from_mins(5);

/// Takes on a role.
#[derive(Debug)]
pub(super) struct Assume {
    sts: Client,
    session_name: String,
    how: How,
}

#[derive(Debug)]
enum How {
    Role { hop: Hop, duration: Option<Duration> },
    Token { role_arn: String, file: PathBuf },
}

impl Assume {
    /// With the credentials in these settings.
    pub(super) fn role(sdk: &SdkConfig, hop: &Hop, duration: Option<Duration>, session_name: &str) -> Self {
        let how = How::Role { hop: hop.clone(), duration };
        Self { sts: Client::new(sdk), session_name: session_name.to_owned(), how }
    }

    /// With a token in a file.
    pub(super) fn with_token(sdk: &SdkConfig, role_arn: &str, file: &Path, session_name: &str) -> Self {
        let how = How::Token { role_arn: role_arn.to_owned(), file: file.to_owned() };
        Self { sts: Client::new(sdk), session_name: session_name.to_owned(), how }
    }

    fn role_arn(&self) -> &str {
        match &self.how {
            How::Role { hop, .. } => &hop.role_arn,
            How::Token { role_arn, .. } => role_arn,
        }
    }

    async fn credentials(&self) -> provider::Result {
        let given = match &self.how {
            How::Role { hop, duration } => self.with_role(hop, *duration).await,
            How::Token { role_arn, file } => self.with_web_identity(role_arn, file).await,
        };
        let given = given.map_err(CredentialsError::provider_error)?;
        let expiry = SystemTime::try_from(given.expiration).map_err(CredentialsError::unhandled)?;
        let types::Credentials { access_key_id, secret_access_key, session_token, .. } = given;
        Ok(Credentials::new(access_key_id, secret_access_key, Some(session_token), Some(expiry), "capt"))
    }

    async fn with_role(
        &self,
        hop: &Hop,
        duration: Option<Duration>,
    ) -> Result<types::Credentials, SessionError> {
        let Hop { role_arn, external_id, duration: _, tags } = hop;
        let mut ask = self
            .sts
            .assume_role()
            .role_arn(role_arn)
            .role_session_name(&self.session_name)
            .set_external_id(external_id.clone())
            .set_duration_seconds(duration.and_then(|time| i32::try_from(time.as_secs()).ok()));
        for (key, value) in tags {
            // Both members are there, so it does not fail.
            if let Ok(tag) = types::Tag::builder().key(key).value(value).build() {
                ask = ask.tags(tag);
            }
        }
        let answer = ask.send().await.map_err(|error| self.refused(&error))?;
        answer.credentials.ok_or_else(|| self.nothing())
    }

    async fn with_web_identity(
        &self,
        role_arn: &str,
        file: &Path,
    ) -> Result<types::Credentials, SessionError> {
        let token = tokio::fs::read_to_string(file).await.map_err(|error| SessionError {
            role: role_arn.to_owned(),
            said: format!("cannot read the token in {}: {error}", file.display()),
            transient: false,
        })?;
        let ask = self.sts.assume_role_with_web_identity().role_arn(role_arn);
        let ask = ask.role_session_name(&self.session_name).web_identity_token(token.trim());
        let answer = ask.send().await.map_err(|error| self.refused(&error))?;
        answer.credentials.ok_or_else(|| self.nothing())
    }

    /// The refusal of this role, or of one before it in the chain.
    fn refused<E>(&self, error: &SdkError<E, HttpResponse>) -> SessionError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        SessionError::within(error).cloned().unwrap_or_else(|| SessionError {
            role: self.role_arn().to_owned(),
            said: brief(error),
            transient: is_transient(error),
        })
    }

    fn nothing(&self) -> SessionError {
        let said = "STS answered without credentials".to_owned();
        SessionError { role: self.role_arn().to_owned(), said, transient: true }
    }
}

impl ProvideCredentials for Assume {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.credentials())
    }
}

/// Holds what another provider gave until shortly before it expires. Credentials without an end are never held: a
/// chain that reads a file has to see it change.
#[derive(Debug)]
pub(super) struct Cached {
    inner: SharedCredentialsProvider,
    // Held over the call, so that many who come at once wait for one answer.
    held: Mutex<Option<Credentials>>,
}

impl Cached {
    pub(super) fn new(inner: impl ProvideCredentials + 'static) -> Self {
        Self { inner: SharedCredentialsProvider::new(inner), held: Mutex::new(None) }
    }

    async fn credentials(&self) -> provider::Result {
        let mut held = self.held.lock().await;
        let left = |held: &Credentials| {
            held.expiry()?.duration_since(SystemTime::from(clock::now())).ok().filter(|left| !left.is_zero())
        };
        let usable = held.as_ref().and_then(|held| Some((held.clone(), left(held)?)));
        if let Some((good, _)) = usable.as_ref().filter(|(_, left)| *left > EARLY) {
            return Ok(good.clone());
        }
        match self.inner.provide_credentials().await {
            Ok(fresh) => {
                *held = Some(fresh.clone());
                Ok(fresh)
            }
            // What we have still works; the next caller tries again.
            Err(error) => usable.map(|(old, _)| old).ok_or(error),
        }
    }
}

impl ProvideCredentials for Cached {
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

    /// Gives credentials that live so long, numbered; and fails from the second time on, if told.
    #[derive(Debug)]
    struct Source {
        life: Option<Duration>,
        fails_later: bool,
        asked: AtomicU32,
    }

    impl Source {
        fn cached(life: Option<Duration>, fails_later: bool) -> Cached {
            Cached::new(Self { life, fails_later, asked: AtomicU32::new(0) })
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

    async fn three(cached: &Cached) -> Vec<String> {
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
