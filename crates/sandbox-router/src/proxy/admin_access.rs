//! Who may read routes on the admin port. Routing keys are addresses of forks, which not every pod has to know.

use std::{fmt, future::Future, net::IpAddr, pin::Pin};

use http::{HeaderMap, StatusCode, header::AUTHORIZATION};

/// Future of [`AdminAuthorizer::authorize`].
pub type AdminAccessFuture<'a> = Pin<Box<dyn Future<Output = Result<(), AdminAccessError>> + Send + 'a>>;

/// Checks the bearer token of a caller.
pub trait AdminAuthorizer: fmt::Debug + Send + Sync {
    /// Whether the owner of the token may read routes.
    fn authorize<'a>(&'a self, token: &'a str) -> AdminAccessFuture<'a>;
}

/// Why routes are not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminAccessError {
    /// No token, or one that is invalid or expired.
    #[error(
        "{0}; send the token of a service account in the header Authorization, or use kubectl port-forward"
    )]
    Unauthenticated(String),
    /// The user is not allowed.
    #[error("{0}")]
    Forbidden(String),
    /// The check is not possible at the moment.
    #[error("the token cannot be checked: {0}")]
    Unavailable(String),
}

impl AdminAccessError {
    /// Status code of the response.
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Checks a request. Probes and metrics contain no keys. Loopback is `kubectl port-forward`, which the API server has authorized.
pub(super) async fn check(
    authorizer: Option<&dyn AdminAuthorizer>,
    peer: IpAddr,
    (path, headers): (&str, &HeaderMap),
) -> Result<(), AdminAccessError> {
    let Some(authorizer) = authorizer.filter(|_| shows_routes(path) && !peer.to_canonical().is_loopback())
    else {
        return Ok(());
    };
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty());
    match token {
        Some((_, token)) => authorizer.authorize(token.trim()).await,
        None => Err(AdminAccessError::Unauthenticated("routes are not shown to everybody".to_owned())),
    }
}

/// Whether the response can contain routing keys.
fn shows_routes(path: &str) -> bool {
    !matches!(path, "/livez" | "/healthz" | "/readyz" | "/metrics")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Knows one token that may and one that may not.
    #[derive(Debug)]
    struct TwoTokens;

    impl AdminAuthorizer for TwoTokens {
        fn authorize<'a>(&'a self, token: &'a str) -> AdminAccessFuture<'a> {
            Box::pin(async move {
                match token {
                    "reader" => Ok(()),
                    "stranger" => {
                        Err(AdminAccessError::Forbidden("stranger may not list sandboxes".to_owned()))
                    }
                    _ => Err(AdminAccessError::Unauthenticated("expired".to_owned())),
                }
            })
        }
    }

    async fn status(peer: &str, path: &str, authorization: Option<&str>) -> u16 {
        let mut headers = HeaderMap::new();
        headers.extend(authorization.map(|value| (AUTHORIZATION, value.parse().unwrap())));
        let checked = check(Some(&TwoTokens), peer.parse().unwrap(), (path, &headers)).await;
        checked.map_or_else(|error| error.status().as_u16(), |()| 200)
    }

    #[tokio::test]
    async fn m9_a_pod_reads_no_routes_without_permission() {
        for path in ["/debug/routes", "/explain", "/api/v1/workloads/routing-rules", "/whatever-comes"] {
            for (authorization, expected) in [
                (None, 401),
                (Some("Bearer "), 401),
                (Some("Basic reader"), 401),
                (Some("Bearer old"), 401),
                (Some("Bearer stranger"), 403),
                (Some("Bearer reader"), 200),
                (Some("bearer reader"), 200),
            ] {
                for peer in ["10.0.0.7", "fd00::7", "::ffff:10.0.0.7"] {
                    assert_eq!(status(peer, path, authorization).await, expected, "{path} {authorization:?}");
                }
                for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
                    assert_eq!(status(peer, path, authorization).await, 200, "port-forward: {path}");
                }
            }
        }
        for path in ["/livez", "/readyz", "/healthz", "/metrics"] {
            assert_eq!(status("10.0.0.7", path, None).await, 200, "{path}");
        }
        let headers = HeaderMap::new();
        assert_eq!(check(None, "10.0.0.7".parse().unwrap(), ("/explain", &headers)).await, Ok(()));
    }
}
