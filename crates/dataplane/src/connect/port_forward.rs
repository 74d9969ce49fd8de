//! Dials a router through `pods/portforward`: only the API server has to be reachable from outside the cluster.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use capt_kinds::sandbox::names;
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use sandbox_router::tunnel::{
    BoxIo, DEFAULT_PORT,
    agent::{GatewayDialer, PermanentDialError, root_cause},
};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// Name of the container port for agents.
const PORT_NAME: &str = "tunnel";

/// Dials a router of a namespace through `pods/portforward`; a different one each time, if there are several.
#[derive(Clone)]
pub struct PortForward {
    client: Client,
    namespace: String,
    /// The router dialed last.
    last: Arc<Mutex<Option<String>>>,
}

impl PortForward {
    /// Dials the routers of this namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned(), last: Arc::default() }
    }

    async fn open(&self) -> io::Result<BoxIo> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let all = pods.list(&ListParams::default().labels(names::ROUTER_LABEL)).await;
        let all = all.map_err(|error| self.explain(error))?;
        let Some(pod) = self.choose_router(&all.items) else {
            let why = format!("no router is ready in namespace {}", self.namespace);
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        };
        let port = tunnel_port(pod);
        let forward = pods.portforward(&pod.name_any(), &[port]).await;
        let mut forward = forward.map_err(|error| self.explain(error))?;
        let (stream, error) = (forward.take_stream(port), forward.take_error(port));
        let (Some(stream), Some(error)) = (stream, error) else {
            return Err(io::Error::other("the port-forward has no stream"));
        };
        // The forwarder task ends with the stream.
        let pod = pod.name_any();
        let error = error.map(move |it| it.map(|words| shorten_kubelet_error(&pod, port, &words)));
        Ok(Box::new(ForwardedStream { stream, error: error.fuse().boxed() }))
    }

    /// A ready router other than the last one: that may be down while its pod still appears ready.
    fn choose_router<'a>(&self, all: &'a [Pod]) -> Option<&'a Pod> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let ready: Vec<&Pod> = all.iter().filter(|it| is_ready(it)).collect();
        let is_other = |it: &&Pod| it.metadata.name != *last;
        let others: Vec<&Pod> = ready.iter().copied().filter(is_other).collect();
        let from = if others.is_empty() { ready } else { others };
        let chosen = *from.get(fastrand::usize(..from.len().max(1)))?;
        last.clone_from(&chosen.metadata.name);
        Some(chosen)
    }

    /// Explains an error. Missing permissions are fatal, because a retry does not help.
    fn explain(&self, error: kube::Error) -> io::Error {
        match error {
            kube::Error::Api(status) if status.code == 403 => PermanentDialError(format!(
                "the API server denied the port-forward to the routers of {0}. It requires `list` on `pods`, and `create` and \
                 `get` on `pods/portforward`, in namespace {0}: request these permissions, or pass an address of the routers \
                 with --address, if there is one (server message: {1})",
                self.namespace,
                // The server's message ends with ": " if only `create` is missing.
                status.message.trim_end_matches(": ")
            ))
            .into(),
            kube::Error::Api(status) if !status.message.is_empty() => io::Error::other(status.message),
            other => io::Error::other(format!("the API server does not answer: {}", root_cause(&other))),
        }
    }
}

impl GatewayDialer for PortForward {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
        Box::pin(self.open())
    }

    fn name(&self) -> String {
        format!("a router of {}", self.namespace)
    }
}

/// A forwarded stream. If the kubelet closes it, the kubelet's message becomes the error.
struct ForwardedStream {
    stream: DuplexStream,
    error: BoxFuture<'static, Option<String>>,
}

impl AsyncRead for ForwardedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if matches!(read, Poll::Ready(Ok(()))) && buf.filled().len() == before && buf.remaining() > 0 {
            // The error arrives before the end of the stream.
            if let Some(Some(words)) = (&mut self.error).now_or_never() {
                return Poll::Ready(Err(io::Error::other(words)));
            }
        }
        read
    }
}

impl AsyncWrite for ForwardedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Shortens a kubelet error, which is wider than a terminal and has the reason last.
fn shorten_kubelet_error(pod: &str, port: u16, words: &str) -> String {
    if words.contains("connection refused") {
        return format!("nothing listens on port {port} of pod {pod}");
    }
    // `error forwarding port 8446 to pod 3f2a…, uid : the reason`
    let reason = words.split_once(", uid ").and_then(|(_, rest)| rest.split_once(": "));
    format!("port-forward to pod {pod} failed: {}", reason.map_or(words, |(_, reason)| reason))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let is_ready =
        conditions.is_some_and(|all| all.iter().any(|it| it.type_ == "Ready" && it.status == "True"));
    is_ready && pod.metadata.deletion_timestamp.is_none()
}

/// The port on which the router listens for agents.
fn tunnel_port(pod: &Pod) -> u16 {
    let containers = pod.spec.iter().flat_map(|it| &it.containers);
    let mut ports = containers.flat_map(|it| it.ports.iter().flatten());
    let named = ports.find(|it| it.name.as_deref() == Some(PORT_NAME));
    named.and_then(|it| u16::try_from(it.container_port).ok()).unwrap_or(DEFAULT_PORT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn pod(ready: &str, ports: &serde_json::Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "router-0"},
            "spec": {"containers": [{"name": "router", "ports": ports}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    #[test]
    fn the_port_of_a_router_is_known_by_its_name() {
        let ports = json!([{"name": "http", "containerPort": 80}, {"name": "tunnel", "containerPort": 9000}]);
        assert_eq!(tunnel_port(&pod("True", &ports)), 9000);
        assert_eq!(tunnel_port(&pod("True", &json!([]))), DEFAULT_PORT);
    }

    #[test]
    fn a_router_that_is_not_ready_or_is_going_is_not_dialled() {
        assert!(is_ready(&pod("True", &json!([]))));
        assert!(!is_ready(&pod("False", &json!([]))));
        let mut going = pod("True", &json!([]));
        going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            "2026-11-17T05:00:00Z".parse().unwrap(),
        ));
        assert!(!is_ready(&going));
    }

    fn is_refusal(error: &io::Error) -> bool {
        error.get_ref().and_then(|it| it.downcast_ref::<PermanentDialError>()).is_some()
    }

    fn dialler() -> PortForward {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        PortForward::new(Client::try_from(nowhere).unwrap(), "shop")
    }

    #[tokio::test]
    async fn another_router_is_dialled_every_time_if_there_are_several() {
        let named = |name: &str, ready: &str| {
            let mut pod = pod(ready, &json!([]));
            pod.metadata.name = Some(name.to_owned());
            pod
        };
        let (dialler, mut last) = (dialler(), None);
        let all = [named("a", "True"), named("b", "True"), named("c", "True"), named("d", "False")];
        for _ in 0..50 {
            let next = dialler.choose_router(&all).unwrap().metadata.name.clone();
            assert_ne!(next, last);
            assert_ne!(next.as_deref(), Some("d"));
            last = next;
        }
        let alone = [named("a", "True")];
        assert!(dialler.choose_router(&alone).is_some());
        assert!(dialler.choose_router(&alone).is_some(), "the only one is dialled again");
        assert!(dialler.choose_router(&[]).is_none());
    }

    #[tokio::test]
    async fn who_may_not_is_told_the_rights_that_are_needed() {
        let refused = kube::core::Status::failure("ann cannot list pods", "Forbidden").with_code(403);
        let error = dialler().explain(kube::Error::Api(refused.boxed()));
        let words = ["ann cannot list pods", "`list` on `pods`", "`create` and `get` on `pods/portforward`"];
        assert!(words.iter().all(|it| error.to_string().contains(it)), "{error}");
        assert!(is_refusal(&error), "it would be tried for ever");
        let away = kube::core::Status::failure("error dialing backend", "InternalError").with_code(500);
        let error = dialler().explain(kube::Error::Api(away.boxed()));
        assert_eq!(error.to_string(), "error dialing backend");
        assert!(!is_refusal(&error));
    }

    #[tokio::test]
    async fn the_last_words_of_a_kubelet_are_the_error() {
        let ends = async |words: Option<&str>| {
            let (mut far, stream) = tokio::io::duplex(64);
            let error = std::future::ready(words.map(str::to_owned)).fuse().boxed();
            let mut forwarded = ForwardedStream { stream, error };
            far.write_all(b"bytes").await.unwrap();
            drop(far);
            let mut read = Vec::new();
            let end = forwarded.read_to_end(&mut read).await;
            assert_eq!(read, b"bytes");
            end.map_err(|error| error.to_string())
        };
        assert_eq!(ends(Some("connection refused")).await, Err("connection refused".to_owned()));
        assert_eq!(ends(None).await, Ok(5));
    }

    #[test]
    fn a_kubelet_s_words_are_cut_to_what_a_person_needs() {
        let said = |why: &str| {
            let words = format!("error forwarding port 8446 to pod 3f2a51c0, uid : {why}");
            shorten_kubelet_error("router-0", 8446, &words)
        };
        let refused = "failed to connect to localhost:8446 inside namespace \"3f2a51c0\", IPv4: dial tcp4 127.0.0.1:8446: \
                       connect: connection refused IPv6 dial tcp6: address localhost: no suitable address";
        assert_eq!(said(refused), "nothing listens on port 8446 of pod router-0");
        let gone = "failed to find sandbox \"3f2a51c0\" in store: not found";
        assert_eq!(said(gone), format!("port-forward to pod router-0 failed: {gone}"));
        assert_eq!(shorten_kubelet_error("router-0", 1, "no"), "port-forward to pod router-0 failed: no");
    }
}
