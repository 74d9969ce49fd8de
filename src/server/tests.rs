//! The answers over real sockets.

use std::time::{Duration, Instant};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
};

use super::*;
use crate::telemetry::{self, LogFormat};

struct Running {
    address: SocketAddr,
    health: Health,
    metrics: Metrics,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
/// Longer than any test waits.
const NEVER: Duration = Duration::from_hours(1);

async fn start(change: impl FnOnce(StatusServer) -> StatusServer) -> Running {
    start_at("127.0.0.1:0", change).await
}

async fn start_at(address: &str, change: impl FnOnce(StatusServer) -> StatusServer) -> Running {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = change(StatusServer::new(Health::new(), Metrics::new("9.9.9"), "9.9.9"));
    let (health, metrics, stop) = (server.health.clone(), server.metrics.clone(), CancellationToken::new());
    let task = tokio::spawn(server.serve(listener, stop.clone()));
    Running { address, health, metrics, stop, task }
}

impl Running {
    async fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A refused upload may be answered with a reset after the answer.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String, String) {
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}");
        let answer = self.raw(&format!("{head}\r\n\r\n{body}")).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_ascii_lowercase(), body.to_owned())
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let (status, _, body) = self.ask("GET", path, "").await;
        (status, body)
    }
}

#[tokio::test]
async fn a_process_that_turns_is_alive_and_one_that_stands_still_is_not() {
    let fresh = start(|it| it).await;
    fresh.health.add_pending("everything");
    assert_eq!(fresh.get("/livez").await, (200, "ok\n".to_owned()), "life does not depend on readiness");
    let still = Health::with_max_heartbeat_age(Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert!(matches!(still.heartbeat(), Heartbeat::Stale(_)));
    still.record_heartbeat();
    let quick = Health::with_max_heartbeat_age(Duration::from_mins(1));
    assert_eq!(quick.heartbeat(), Heartbeat::Fresh);
}

#[tokio::test]
async fn the_server_keeps_the_heart_beating() {
    let longest = Duration::from_millis(200);
    let begun = Instant::now();
    let running = start(|it| StatusServer { health: Health::with_max_heartbeat_age(longest), ..it }).await;
    // Without a beat it would be dead for ever after that time. With it, it is only now and then, on a machine that is busy.
    let alive = async {
        while running.get("/livez").await.0 != 200 || begun.elapsed() < longest * 2 {
            tokio::time::sleep(longest / 10).await;
        }
    };
    tokio::time::timeout(PATIENCE, alive).await.expect("it is alive");
    running.stop.cancel();
    running.task.await.unwrap();
    let dead = async {
        while running.health.heartbeat() == Heartbeat::Fresh {
            tokio::time::sleep(longest / 10).await;
        }
    };
    tokio::time::timeout(PATIENCE, dead).await.expect("nobody beats it any more");
}

#[tokio::test]
async fn not_ready_lists_what_is_waited_for_one_a_line() {
    let running = start(|it| it).await;
    running.health.add_pending("leadership");
    running.health.add_pending("CRDs");
    running.health.add_pending("CRDs");
    assert_eq!(running.get("/readyz").await, (503, "CRDs\nleadership\n".to_owned()));
    running.health.mark_ready("CRDs");
    assert_eq!(running.get("/readyz").await, (503, "leadership\n".to_owned()));
    running.health.mark_ready("leadership");
    assert_eq!(running.get("/readyz").await, (200, "ok\n".to_owned()));
    assert!(running.health.is_ready());
}

#[tokio::test]
async fn metrics_come_as_openmetrics() {
    let running = start(|it| it).await;
    running.metrics.set_leader(true);
    let (status, head, body) = running.ask("GET", "/metrics", "").await;
    assert_eq!(status, 200);
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{head}"
    );
    assert!(body.contains("\ncapt_leader 1\n") && body.ends_with("# EOF\n"), "{body}");
}

#[tokio::test]
async fn the_version_is_told() {
    let running = start(|it| it).await;
    assert_eq!(running.get("/version").await, (200, "{\"version\":\"9.9.9\"}\n".to_owned()));
    let (status, head, body) = running.ask("HEAD", "/version", "").await;
    assert_eq!((status, body.as_str()), (200, ""));
    assert!(head.contains("content-length: 20"), "{head}");
}

#[tokio::test]
async fn unknown_paths_and_methods_are_refused() {
    let running = start(|it| it).await;
    assert_eq!(running.get("/").await.0, 404);
    assert_eq!(running.get("/metrics/").await.0, 404);
    for (method, path, allowed) in
        [("POST", "/livez", "get, head"), ("DELETE", "/metrics", "get, head"), ("GET", "/log-level", "put")]
    {
        let (status, head, _) = running.ask(method, path, "").await;
        assert_eq!(status, 405, "{method} {path}");
        assert!(head.contains(&format!("allow: {allowed}")), "{head}");
    }
}

#[tokio::test]
async fn the_log_level_can_be_changed_by_a_caller_of_this_machine() {
    let (_log, level) = telemetry::build_subscriber(LogFormat::Text, "info", std::io::sink).unwrap();
    let running = start(|it| it.with_log_level(level)).await;
    let (status, _, body) = running.ask("PUT", "/log-level", "info,capt=debug\n").await;
    assert_eq!((status, body.as_str()), (200, "ok\n"));
    let (status, _, body) = running.ask("PUT", "/log-level", "capt=loud").await;
    assert_eq!(status, 400);
    assert!(body.contains("capt=debug"), "{body}");
    let (status, _, body) = running.ask("PUT", "/log-level", &"a".repeat(5000)).await;
    assert_eq!(status, 413, "{body}");
}

#[test]
fn only_this_machine_is_local() {
    for (peer, local) in [
        ("127.0.0.1:5", true),
        ("[::1]:5", true),
        ("[::ffff:127.0.0.1]:5", true),
        ("10.0.0.7:5", false),
        ("[::ffff:10.0.0.7]:5", false),
        ("[2001:db8::1]:5", false),
    ] {
        assert_eq!(is_local(peer.parse().unwrap()), local, "{peer}");
    }
}

#[tokio::test]
async fn a_log_that_cannot_be_changed_says_so() {
    let running = start(|it| it).await;
    assert_eq!(running.ask("PUT", "/log-level", "debug").await.0, 501);
}

/// With no patience for one thing, and all for the others: what ends is ended by that one.
fn patient(server: StatusServer, change: impl FnOnce(&mut HttpTimeouts)) -> StatusServer {
    let mut patience = HttpTimeouts { head: NEVER, body: NEVER, connection: NEVER, ..server.timeouts };
    change(&mut patience);
    StatusServer { timeouts: patience, ..server }
}

#[tokio::test]
async fn a_caller_who_never_ends_the_head_is_let_go() {
    let running = start(|it| patient(it, |it| it.head = Duration::from_millis(200))).await;
    let answer = running.raw("GET /livez HTTP/1.1\r\nhost:");
    tokio::time::timeout(PATIENCE, answer).await.expect("it is let go");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let (_log, level) = telemetry::build_subscriber(LogFormat::Text, "info", std::io::sink).unwrap();
    let hasty = |it: StatusServer| patient(it, |it| it.body = Duration::from_millis(200));
    let running = start(|it| hasty(it.with_log_level(level))).await;
    let answer = running.raw("PUT /log-level HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nin");
    let answer = tokio::time::timeout(PATIENCE, answer).await.expect("it is not waited for");
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[tokio::test]
async fn a_connection_does_not_live_for_ever() {
    let life = Duration::from_secs(1);
    let running = start(|it| patient(it, |it| it.connection = life)).await;
    let before = Instant::now();
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    // One request after the other, whose heads are never late.
    let mut answers = 0;
    let asking = async {
        while stream.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.is_ok() {
            let mut buffer = [0; 1024];
            if stream.read(&mut buffer).await.unwrap_or(0) == 0 {
                break;
            }
            answers += 1;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("still open");
    assert!(before.elapsed() >= life && answers > 0, "{answers} answers in {:?}", before.elapsed());
}

#[tokio::test]
async fn a_stopped_server_leaves_its_port() {
    // No other process uses this address and could take the port.
    let running = start_at("127.41.0.1:0", |it| it).await;
    assert_eq!(running.get("/livez").await.0, 200);
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    idle.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    running.stop.cancel();
    tokio::time::timeout(PATIENCE, running.task).await.expect("it stops").unwrap();
    assert!(TcpListener::bind(running.address).await.is_ok());
}
