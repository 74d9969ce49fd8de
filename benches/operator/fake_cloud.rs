//! A fake EKS API as far as the operator uses it, and one fake API server for all clusters.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::{Request, body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::{TlsAcceptor, rustls};

/// Where both are.
pub(crate) struct FakeCloud {
    /// EKS.
    pub(crate) eks: String,
    /// The API of every cluster, and the authority that signed it.
    pub(crate) api: String,
    pub(crate) authority: String,
}

impl FakeCloud {
    /// Serves until the runtime ends. What exists is what the stand-in for terraform left in the directory.
    pub(crate) async fn start(made: PathBuf) -> anyhow::Result<Self> {
        let (eks, api) = (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
        let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let world = Self {
            eks: format!("http://{}", eks.local_addr()?),
            api: format!("https://{}", api.local_addr()?),
            authority: STANDARD.encode(signed.cert.pem()),
        };
        let key = rustls::pki_types::PrivateKeyDer::try_from(signed.signing_key.serialize_der());
        let key = key.map_err(|error| anyhow::anyhow!("a key of our own: {error}"))?;
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![signed.cert.der().clone()], key)?;
        tokio::spawn(serve_api(api, TlsAcceptor::from(Arc::new(config))));
        let known = Arc::new((made, world.api.clone(), world.authority.clone()));
        tokio::spawn(serve_eks(eks, known));
        Ok(world)
    }
}

type FakeCloudState = (PathBuf, String, String);

async fn serve_eks(listener: TcpListener, known: Arc<FakeCloudState>) {
    while let Ok((stream, _)) = listener.accept().await {
        let known = Arc::clone(&known);
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let answer = handle_eks(request.uri().path(), &known);
                async move { Ok::<_, Infallible>(answer) }
            });
            // A client that disconnects is not an error.
            let _hung_up = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn serve_api(listener: TcpListener, tls: TlsAcceptor) {
    while let Ok((stream, _)) = listener.accept().await {
        let tls = tls.clone();
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let version = json!({"major": "1", "minor": "33", "gitVersion": "v1.33.0", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
            let service = service_fn(move |_| {
                let answer = json_response(StatusCode::OK, &version);
                async move { Ok::<_, Infallible>(answer) }
            });
            let _hung_up = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn handle_eks(path: &str, (made, endpoint, authority): &FakeCloudState) -> Response<Full<Bytes>> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let found = match parts.as_slice() {
        ["clusters", name] if made.join(name).exists() => Some(json!({"cluster": {
            "name": name, "arn": format!("arn:aws:eks:eu-central-1:123456789012:cluster/{name}"), "version": "1.33",
            "status": "ACTIVE", "endpoint": endpoint, "certificateAuthority": {"data": authority},
            "platformVersion": "eks.1", "createdAt": 1_700_000_000}})),
        ["clusters", name, "fargate-profiles"] => {
            Some(json!({"fargateProfileNames": created_profiles(made, name)}))
        }
        ["clusters", name, "fargate-profiles", profile]
            if made.join(format!("{name}.{profile}")).exists() =>
        {
            Some(
                json!({"fargateProfile": {"fargateProfileName": profile, "clusterName": name, "status": "ACTIVE",
                "fargateProfileArn": format!("arn:aws:eks:eu-central-1:123456789012:fargateprofile/{name}/{profile}/x")}}),
            )
        }
        ["clusters", _, "addons"] => Some(json!({"addons": []})),
        _ => None,
    };
    match found {
        Some(answer) => json_response(StatusCode::OK, &answer),
        None => {
            let mut answer = json_response(StatusCode::NOT_FOUND, &json!({"message": "no such thing"}));
            let word = http::HeaderValue::from_static("ResourceNotFoundException");
            answer.headers_mut().insert("x-amzn-errortype", word);
            answer
        }
    }
}

fn created_profiles(made: &Path, cluster: &str) -> Vec<String> {
    let files = std::fs::read_dir(made).into_iter().flatten().flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    names.filter_map(|name| Some(name.strip_prefix(&format!("{cluster}."))?.to_owned())).collect()
}

fn json_response(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    answer
}
