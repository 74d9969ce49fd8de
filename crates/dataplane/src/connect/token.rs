//! The developer's bearer token: the one that their kubeconfig uses for the API server.

use std::{future::Future, path::PathBuf, pin::Pin};

use http::{Request, Response, header};
use kube::{
    Config,
    client::{Body, ConfigExt as _},
};
use sandbox_router::tunnel::agent::TokenSource;
use tower::{BoxError, Layer as _, ServiceExt as _, service_fn, util::BoxCloneSyncService};

/// The kubeconfig has no bearer token.
#[derive(Debug, thiserror::Error)]
#[error(
    "the kubeconfig has no bearer token for the router (a client certificate does not work); create one with `kubectl \
     create token` and pass its file with --token-file"
)]
pub struct NoToken;

/// Authenticates a request as the kubeconfig says and returns its headers.
type Signer = BoxCloneSyncService<Request<Body>, Response<()>, BoxError>;

/// The token of a kubeconfig. Its source (a file, `aws eks get-token`) is queried again when the token expires.
#[derive(Clone)]
pub struct KubeToken(Signer);

impl KubeToken {
    /// For this configuration. May run its exec plugin.
    pub fn new(config: &Config) -> Result<Self, TokenError> {
        let layer = config.auth_layer().map_err(TokenError::AuthLayer)?.ok_or(NoToken)?;
        Ok(Self(BoxCloneSyncService::new(layer.layer(service_fn(echo_headers)))))
    }

    /// Runs an empty request through the auth layer and extracts its token.
    async fn current_token(self) -> Result<String, String> {
        let signed = self.0.oneshot(Request::new(Body::empty())).await;
        let signed = signed.map_err(|error| error.to_string())?;
        let signed = signed.headers().get(header::AUTHORIZATION);
        let text = signed.and_then(|it| it.to_str().ok());
        let token = text.and_then(|it| it.strip_prefix("Bearer ")).ok_or_else(|| NoToken.to_string())?;
        Ok(token.to_owned())
    }
}

async fn echo_headers(request: Request<Body>) -> Result<Response<()>, BoxError> {
    let mut answer = Response::new(());
    *answer.headers_mut() = request.into_parts().0.headers;
    Ok(answer)
}

/// Why no token is available.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The kubeconfig has none.
    #[error(transparent)]
    Absent(#[from] NoToken),
    /// The auth layer cannot be built.
    #[error("cannot obtain a token from the kubeconfig")]
    AuthLayer(#[source] kube::Error),
}

impl TokenSource for KubeToken {
    fn token(&self) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send>> {
        Box::pin(self.clone().current_token())
    }
}

/// A token file, read for every connection.
#[derive(Debug, Clone)]
pub struct FileToken(pub PathBuf);

impl TokenSource for FileToken {
    fn token(&self) -> Pin<Box<dyn Future<Output = Result<String, String>> + Send>> {
        let path = self.0.clone();
        Box::pin(async move {
            let read = tokio::fs::read_to_string(&path).await;
            let text = read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            Ok(text.trim().to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use kube::config::{AuthInfo, ExecConfig};

    use super::*;

    fn config(auth_info: AuthInfo) -> Config {
        let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
        config.auth_info = auth_info;
        config
    }

    #[tokio::test]
    async fn a_token_in_the_kubeconfig_is_the_token() {
        let auth = AuthInfo { token: Some("s3cret".to_owned().into()), ..AuthInfo::default() };
        let token = KubeToken::new(&config(auth)).unwrap();
        assert_eq!(token.token().await.unwrap(), "s3cret");
    }

    #[tokio::test]
    async fn a_command_that_makes_tokens_is_run() {
        let answer = r#"{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"k8s-aws-v1.made","expirationTimestamp":"2020-01-01T00:00:00Z"}}"#;
        let exec: ExecConfig = serde_json::from_value(serde_json::json!({
            "apiVersion": "client.authentication.k8s.io/v1beta1", "command": "echo", "args": [answer],
            "interactiveMode": "Never",
        }))
        .unwrap();
        let token = KubeToken::new(&config(AuthInfo { exec: Some(exec), ..AuthInfo::default() })).unwrap();
        assert_eq!(token.token().await.unwrap(), "k8s-aws-v1.made");
    }

    #[test]
    fn a_certificate_is_no_token_and_the_remedy_is_told() {
        let Err(error) = KubeToken::new(&config(AuthInfo::default())) else { panic!("there is a token") };
        assert!(error.to_string().contains("--token-file"), "{error}");
    }
}
