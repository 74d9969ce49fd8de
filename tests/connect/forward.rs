//! The way through the API server, where there is none that is real: a few lines play it and the kubelet behind it. They list
//! one router, and carry bytes in the frames of `v4.channel.k8s.io`. `kubelet` has the real ones.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use capt_dataplane::connect::PortForward;
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use sandbox_router::tunnel::{
    DEFAULT_PORT, TunnelTimeouts, WorkloadName,
    agent::{Agent, AgentConfig, AgentState, TokenSource},
    gateway::{AuthorizeError, Authorizer, Gateway, SessionGrant},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_tungstenite::tungstenite::{
    Message,
    handshake::server::{Request, Response},
};
use tokio_util::sync::CancellationToken;

use super::{harness::start_app, test_kube::TIMEOUT};

const MIB: usize = 1024 * 1024;

struct AllowAll;

impl Authorizer for AllowAll {
    fn authorize(
        &self,
        token: String,
        _: WorkloadName,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<SessionGrant, AuthorizeError>> + Send>> {
        Box::pin(
            async move { Ok(SessionGrant { user: token, grace: Duration::ZERO, epoch: 0, holder: None }) },
        )
    }
}

struct FixedToken;

impl TokenSource for FixedToken {
    fn token(&self) -> std::pin::Pin<Box<dyn Future<Output = Result<String, String>> + Send>> {
        Box::pin(async { Ok("ann".to_owned()) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_go_through_a_port_forward_of_the_api_server() {
    let gateway = Gateway::new(Arc::new(AllowAll), TunnelTimeouts::default());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let router = listener.local_addr().unwrap();
    tokio::spawn(Arc::clone(&gateway).serve(listener, None, CancellationToken::new()));
    let server = start_fake_api_server(router).await;
    let client =
        kube::Client::try_from(kube::Config::new(format!("http://{server}").parse().unwrap())).unwrap();
    let workload = WorkloadName::new("shop", "cart-local");
    let config = AgentConfig {
        workload: workload.clone(),
        version: "test".to_owned(),
        session: "one".to_owned(),
        takeover: false,
        mappings: vec![format!("8080={}", start_app("mine").await).parse().unwrap()],
        times: TunnelTimeouts::default(),
    };
    let agent = Agent::new(config, Arc::new(PortForward::new(client, "shop")), Arc::new(FixedToken));
    let mut view = agent.watch();
    tokio::spawn(async move { agent.run(CancellationToken::new()).await });
    let connected = view.wait_for(|it| it.state == AgentState::Connected);
    tokio::time::timeout(TIMEOUT, connected).await.expect("it does not connect").unwrap();
    for size in [0, 1, MIB] {
        let body = Full::new(bytes::Bytes::from(vec![1; size]));
        let request = http::Request::post("http://cart/").body(body).unwrap();
        let asked = gateway.request(&workload, 8080, request);
        let answer = tokio::time::timeout(TIMEOUT, asked).await.expect("it is stuck").unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "mine");
    }
}

/// Lists one router, and forwards to it.
async fn start_fake_api_server(router: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut first = [0; 512];
                let seen = socket.peek(&mut first).await.unwrap();
                if String::from_utf8_lossy(&first[..seen]).contains("/pods/router-0/portforward") {
                    return serve_port_forward(socket, router).await;
                }
                let read = socket.read(&mut [0; 4096]).await.unwrap();
                assert!(read > 0);
                let pods = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [{
                    "metadata": {"name": "router-0", "namespace": "shop"},
                    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
                }]})
                .to_string();
                let length = pods.len();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                let answer = format!("{head}\r\ncontent-length: {length}\r\n\r\n{pods}");
                socket.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    address
}

/// The kubelet's part: channel 0 is data, channel 1 is errors, and each begins with the port.
async fn serve_port_forward(socket: TcpStream, router: SocketAddr) {
    #[expect(clippy::result_large_err, reason = "the shape of the callback is not ours")]
    let choose = |_: &Request, mut answer: Response| {
        answer.headers_mut().insert("sec-websocket-protocol", "v4.channel.k8s.io".parse().unwrap());
        Ok(answer)
    };
    let socket = tokio_tungstenite::accept_hdr_async(socket, choose).await.unwrap();
    let (mut to_agent, mut from_agent) = socket.split();
    let [low, high] = DEFAULT_PORT.to_le_bytes();
    for channel in [0, 1] {
        to_agent.send(Message::binary(vec![channel, low, high])).await.unwrap();
    }
    let (mut read, mut write) = TcpStream::connect(router).await.unwrap().into_split();
    let up = async {
        while let Some(Ok(message)) = from_agent.next().await {
            if let Message::Binary(bytes) = message {
                assert_eq!(bytes[0], 0);
                write.write_all(&bytes[1..]).await.unwrap();
            }
        }
    };
    let down = async {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(read) = read.read(&mut buffer).await {
            if read == 0 || to_agent.send(Message::binary([&[0], &buffer[..read]].concat())).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(up, down);
}
