//! The fast path returns the same responses as general HTTP handling, byte for byte.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rstest::rstest;
use sandbox_router::{
    local_transport::NoLocalTransport,
    proxy::{Proxy, ProxyLimits, ProxySettings},
};
use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::harness::{
    PATIENCE, Reserved, ShopFixture, ask, cart, eventually, get, http1, proxy, settings, table, unless_idle,
    whole,
};

/// A pod that answers every request with these pieces, and closes where they do not tell the end themselves. `RST` is no piece: the
/// connection is torn off.
async fn scripted(pieces: &'static [&'static str], closes: bool) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, opened) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
    let count = Arc::clone(&opened);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                stream.set_nodelay(true).unwrap();
                let mut heard = Vec::new();
                while let Ok(1..) = stream.read_buf(&mut heard).await {
                    if !heard.ends_with(b"\r\n\r\n") {
                        continue;
                    }
                    heard.clear();
                    for piece in pieces {
                        if *piece == "RST" {
                            SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
                            return;
                        }
                        stream.write_all(piece.as_bytes()).await.unwrap();
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    if closes {
                        return;
                    }
                }
            });
        }
    });
    (address, opened)
}

/// A request that takes the fast path, and the same with a header that excludes it.
fn ways(method: &str) -> [String; 2] {
    let head = format!("{method} / HTTP/1.1\r\nhost: a\r\n");
    [format!("{head}\r\n"), format!("{head}te: trailers\r\n\r\n")]
}

/// Everything that comes back until nothing more does, as status, headers and body.
async fn told(to: SocketAddr, request: &str, is_head: bool) -> (String, BTreeSet<String>, String) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    // Who has nothing more to ask still gets its answer.
    stream.shutdown().await.unwrap();
    let mut all = Vec::new();
    let _cut = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut all)).await.expect("it ends");
    let text = String::from_utf8(all).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default().to_owned();
    let (mut headers, mut is_chunked) = (BTreeSet::new(), false);
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        let name = name.to_ascii_lowercase();
        is_chunked |= name == "transfer-encoding";
        // A body may be framed in one way or another.
        if !["transfer-encoding", "content-length", "connection"].contains(&name.as_str()) {
            headers.insert(format!("{name}: {value}"));
        }
    }
    let body = if is_chunked && !is_head { joined(body) } else { body.to_owned() };
    (status, headers, body)
}

/// The data of chunks.
fn joined(mut chunks: &str) -> String {
    let mut all = String::new();
    while let Some((size, rest)) = chunks.split_once("\r\n") {
        let size = usize::from_str_radix(size.split(';').next().unwrap().trim(), 16).unwrap();
        if size == 0 {
            return all;
        }
        all.push_str(&rest[..size.min(rest.len())]);
        chunks = rest.get(size + 2..).unwrap_or_default();
    }
    format!("{all} (cut)")
}

#[rstest]
#[case::a_length("GET", &["HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-a: 1\r\nx-a: 2\r\n\r\nhello"], false)]
#[case::a_head_in_pieces("GET", &["HTTP/1.1 200 O", "K\r\ncontent-le", "ngth: 5\r\n", "\r\nhe", "llo"], false)]
#[case::chunks("GET", &["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel", "\r\n2\r\nlo\r\n0\r\n\r\n"], false)]
#[case::until_it_closes("GET", &["HTTP/1.1 200 OK\r\n\r\nhel", "lo"], true)]
#[case::older("GET", &["HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello"], true)]
#[case::no_content("GET", &["HTTP/1.1 204 No Content\r\n\r\n"], false)]
#[case::no_content_of_a_length("GET", &["HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n"], false)]
#[case::a_list_of_lengths("GET", &["HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\n\r\nhello"], false)]
#[case::not_modified("GET", &["HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\n\r\n"], false)]
#[case::only_the_head("HEAD", &["HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"], false)]
#[case::only_the_head_of_chunks("HEAD", &["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"], false)]
#[case::hints_before("GET", &["HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"], false)]
#[case::for_the_neighbour("GET", &["HTTP/1.1 200 OK\r\nconnection: x-mine\r\nx-mine: 1\r\nkeep-alive: 5\r\ncontent-length: 2\r\n\r\nok"], false)]
#[case::a_failure("GET", &["HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\nno"], false)]
#[tokio::test(flavor = "multi_thread")]
async fn both_ways_bring_the_same(
    #[case] method: &str,
    #[case] pieces: &'static [&'static str],
    #[case] closes: bool,
) {
    let (pod, _) = scripted(pieces, closes).await;
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[pod])])).await;
    let [short, long] = ways(method);
    let short = told(port.address(), &short, method == "HEAD").await;
    assert_eq!(short, told(port.address(), &long, method == "HEAD").await);
    assert!(short.0.starts_with("HTTP/1.1 "), "{short:?}");
    assert!(short.1.contains("x-sandbox-route: baseline"), "{short:?}");
}

#[rstest]
#[case::no_http(&["220 ready\r\n"])]
#[case::closed(&[])]
#[case::half_a_head(&["HTTP/1.1 200 OK\r\ncontent-"])]
#[case::two_lengths(&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok"])]
#[case::a_switch_that_nobody_asked_for(&["HTTP/1.1 101 Switching Protocols\r\n\r\n"])]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_answer_is_refused_on_both_ways(#[case] pieces: &'static [&'static str]) {
    let (pod, _) = scripted(pieces, true).await;
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[pod])])).await;
    for request in ways("GET") {
        let (status, headers, body) = told(port.address(), &request, false).await;
        assert_eq!(status, "HTTP/1.1 502 Bad Gateway", "{body}");
        assert!(headers.contains("x-sandbox-error: upstream"), "{headers:?}");
        assert!(body.contains("failed before it responded"), "{body}");
    }
}

#[rstest]
#[case::a_length(&["HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhel", "lo"])]
#[case::chunks(&["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n32\r\nhel", "lo"])]
#[case::until_it_closes(&["HTTP/1.1 200 OK\r\n\r\nhel", "lo", "RST"])]
#[case::chunks_that_make_no_sense(&["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "nonsense\r\n"])]
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_off_is_never_taken_for_a_whole_one(#[case] pieces: &'static [&'static str]) {
    let (pod, _) = scripted(pieces, true).await;
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[pod])])).await;
    let mut sender = http1(port.address()).await;
    let response = sender.send_request(get("/", &[])).await.unwrap();
    let body = tokio::time::timeout(PATIENCE, http_body_util::BodyExt::collect(response.into_body())).await;
    assert!(body.expect("it ends").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_come_together_are_answered_in_their_order_on_whichever_way() {
    let shop = ShopFixture::open().await;
    let plain = |path: &str| format!("GET /big?{path} HTTP/1.1\r\nhost: a\r\n\r\n");
    let with_body = "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nfour";
    let last = "GET /big?6 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let all =
        [plain("1"), plain("2"), plain("3"), with_body.to_owned(), plain("5"), last.to_owned()].concat();
    let mut caller = TcpStream::connect(shop.port.address()).await.unwrap();
    caller.write_all(all.as_bytes()).await.unwrap();
    let mut said = String::new();
    tokio::time::timeout(PATIENCE, caller.read_to_string(&mut said)).await.expect("it ends").unwrap();
    let bodies = said.split("HTTP/1.1 200 OK\r\n").skip(1).map(|it| it.split_once("\r\n\r\n").unwrap().1);
    assert_eq!(bodies.collect::<Vec<_>>(), ["x", "xx", "xxx", "four", "xxxxx", "xxxxxx"]);
    assert_eq!(shop.baseline.seen(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_to_pods_are_used_again_and_large_answers_arrive() {
    let shop = ShopFixture::open().await;
    let mut sender = http1(shop.port.address()).await;
    for size in [0, 1, 16 * 1024, 5_000_000, 3] {
        sender.ready().await.unwrap();
        let request = get(&format!("/big?{size}"), &[]);
        let (status, _, body) = whole(sender.send_request(request).await.unwrap()).await;
        assert_eq!((status.as_u16(), body.len()), (200, size));
    }
    assert_eq!(shop.baseline.connections.load(Ordering::SeqCst), 1);
}

#[rstest]
#[case::before_the_answer("", "")]
#[case::while_the_pod_is_at_it("HTTP/1.1 102 Processing\r\n\r\n", "")]
#[case::in_the_middle_of_it("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n", "")]
#[case::with_the_next_request_sent("", "GET /2 HTTP/1.1\r\nhost: a\r\n\r\n")]
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_is_torn_off_takes_its_request_along(#[case] said: &str, #[case] more: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[listener.local_addr().unwrap()])])).await;
    for request in ways("GET") {
        let mut caller = TcpStream::connect(port.address()).await.unwrap();
        caller.write_all(request.as_bytes()).await.unwrap();
        let (mut pod, _) = listener.accept().await.unwrap();
        let mut heard = Vec::new();
        while !heard.ends_with(b"\r\n\r\n") {
            assert_ne!(pod.read_buf(&mut heard).await.unwrap(), 0);
        }
        pod.write_all(said.as_bytes()).await.unwrap();
        caller.write_all(more.as_bytes()).await.unwrap();
        // Until the router has read both, of which nothing is seen; on a slow machine it may not have.
        tokio::time::sleep(Duration::from_millis(200)).await;
        SockRef::from(&caller).set_linger(Some(Duration::ZERO)).unwrap();
        drop(caller);
        let ended =
            tokio::time::timeout(PATIENCE, pod.read(&mut [0; 16])).await.expect("nobody told the pod");
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?} after {request}");
    }
}

/// Opens this many connections to a pod at once, which go back to the pool, and hands the pod's ends over.
async fn pooled(listener: &TcpListener, to: SocketAddr, count: usize) -> Vec<TcpStream> {
    let (mut callers, mut pods) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let mut caller = TcpStream::connect(to).await.unwrap();
        caller.write_all(ways("GET")[0].as_bytes()).await.unwrap();
        callers.push(caller);
        pods.push(listener.accept().await.unwrap().0);
    }
    for (pod, caller) in pods.iter_mut().zip(&mut callers) {
        assert_ne!(pod.read(&mut [0; 1024]).await.unwrap(), 0);
        pod.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"\r\n\r\nok") {
            assert_ne!(caller.read_buf(&mut said).await.unwrap(), 0);
        }
    }
    pods
}

#[rstest]
#[case::closed(None)]
#[case::said_something(Some("HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"))]
#[tokio::test(flavor = "multi_thread")]
async fn none_of_many_idle_connections_that_pods_are_done_with_is_used(#[case] last: Option<&str>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = ProxySettings { workers: 1, ..settings() };
    let proxy = Proxy::start(settings, Arc::new(NoLocalTransport)).unwrap();
    let port = Reserved::new();
    proxy.apply(table([cart(port.port, &[listener.local_addr().unwrap()])])).await;
    // More than the runtime looks at before it makes others wait their turn.
    let mut pods = pooled(&listener, port.address(), 300).await;
    for pod in &mut pods {
        match last {
            Some(text) => pod.write_all(text.as_bytes()).await.unwrap(),
            None => pod.shutdown().await.unwrap(),
        }
    }
    let to = port.address();
    let asked = tokio::spawn(async move { ask(to, get("/", &[])).await });
    let (mut fresh, _) =
        tokio::time::timeout(PATIENCE, listener.accept()).await.expect("an old one was used").unwrap();
    assert_ne!(fresh.read(&mut [0; 1024]).await.unwrap(), 0);
    fresh.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nnew").await.unwrap();
    let (status, _, body) = asked.await.unwrap();
    assert_eq!((status.as_u16(), body.as_str()), (200, "new"));
}

/// The runtime takes a read that fills its buffer for one of several.
#[rstest]
#[case::the_first(1024, false)]
#[case::a_later_one(16 * 1024, true)]
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_fills_a_buffer_leaves_a_connection_that_can_be_closed(
    #[case] size: usize,
    #[case] later: bool,
) {
    let idle = Duration::from_millis(800);
    let limits = ProxyLimits { idle_timeout: idle, ..settings().limits };
    let settings = ProxySettings { limits, ..settings() };
    let proxy = Proxy::start(settings, Arc::new(NoLocalTransport)).unwrap();
    let shop = ShopFixture::with(proxy).await;
    let head = |size: usize| {
        let begin = "GET /big?2 HTTP/1.1\r\nhost: a\r\nx-a: ";
        format!("{begin}{}\r\n\r\n", "a".repeat(size - begin.len() - 4))
    };
    let sizes = if later { vec![100, size] } else { vec![size] };
    let mut caller = unless_idle(idle, async || {
        let mut caller = TcpStream::connect(shop.port.address()).await.unwrap();
        let begun = Instant::now();
        for size in &sizes {
            let sent = caller.write_all(head(*size).as_bytes()).await;
            let mut said = Vec::new();
            while !said.ends_with(b"\r\n\r\nxx") {
                if sent.is_err() || !matches!(caller.read_buf(&mut said).await, Ok(1..)) {
                    return Err(begun.elapsed());
                }
            }
        }
        Ok(caller)
    })
    .await;
    let ended = tokio::time::timeout(PATIENCE, caller.read(&mut [0; 16])).await.expect("it is open still");
    assert_eq!(ended.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_time_begins_when_an_answer_ends() {
    let idle = Duration::from_secs(1);
    let limits = ProxyLimits { idle_timeout: idle, ..settings().limits };
    let settings = ProxySettings { limits, ..settings() };
    let proxy = Proxy::start(settings, Arc::new(NoLocalTransport)).unwrap();
    let shop = ShopFixture::with(proxy).await;
    unless_idle(idle, async || {
        let mut sender = http1(shop.port.address()).await;
        let answered = Instant::now() + Duration::from_millis(1500);
        assert_eq!(sender.send_request(get("/slow?1500", &[])).await.unwrap().status(), 200);
        // The answer ended after that.
        let closed = || Err(answered.elapsed());
        if sender.ready().await.is_err() {
            return closed();
        }
        match sender.send_request(get("/", &[])).await {
            Ok(response) => {
                assert_eq!(response.status(), 200);
                Ok(())
            }
            Err(_) => closed(),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_of_an_answer_arrive_as_they_come() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (proxy, port) = (proxy(), Reserved::new());
    proxy.apply(table([cart(port.port, &[listener.local_addr().unwrap()])])).await;
    let mut caller = TcpStream::connect(port.address()).await.unwrap();
    caller.write_all(ways("GET")[0].as_bytes()).await.unwrap();
    let (mut pod, _) = listener.accept().await.unwrap();
    let mut said = Vec::new();
    for piece in
        ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "3\r\none\r\n", "3\r\ntwo\r\n", "0\r\n\r\n"]
    {
        pod.write_all(piece.as_bytes()).await.unwrap();
        let end = &piece.as_bytes()[piece.len() - 4..];
        let heard = async {
            while !said.ends_with(end) {
                assert_ne!(caller.read_buf(&mut said).await.unwrap(), 0);
            }
        };
        tokio::time::timeout(PATIENCE, heard).await.expect("it was held back");
        said.clear();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_that_stops_lets_a_plain_request_end_and_says_goodbye() {
    let shop = Arc::new(ShopFixture::open().await);
    let (to, seen) = (shop.port.address(), Arc::clone(&shop));
    let slow = tokio::spawn(async move { ask(to, get("/slow?700", &[])).await });
    eventually("it is under way", || async { seen.baseline.seen() == 1 }).await;
    shop.proxy.stop().await;
    let (status, headers, body) = slow.await.unwrap();
    assert_eq!((status.as_u16(), body.as_str()), (200, "baseline"));
    assert_eq!(headers["connection"], "close");
}
