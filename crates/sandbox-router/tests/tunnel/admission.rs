//! Authentication, authorization, admission and takeover.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
};

use rstest::rstest;
use sandbox_router::tunnel::{
    WorkloadName,
    agent::{AgentError, AgentState},
    gateway::{AuthorizeError, Gateway, SessionHolder, SessionPhase, TunnelError},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use super::{
    app::App,
    harness::eventually,
    rig::{PATIENCE, PORT, People, Rig, Running, cart, quick},
};

#[rstest]
#[case::a_token_of_nobody("mallory", "not valid")]
#[case::an_empty_token("", "not valid")]
#[case::an_expired_token("eve", "expired an hour ago")]
#[case::a_user_who_may_not("bob", "may not connect")]
#[tokio::test(flavor = "multi_thread")]
async fn f14_is_refused_at_once_and_in_words(#[case] token: &str, #[case] words: &str) {
    let rig = Rig::start().await;
    rig.people.refuse("bob", AuthorizeError::Forbidden("bob may not connect to it".to_owned()));
    rig.people.refuse("eve", AuthorizeError::Unauthenticated("it expired an hour ago".to_owned()));
    let mut agent = Running::start(rig.config("x", &[format!("{PORT}=1")]), token, rig.address);
    let AgentError::Refused(why) = agent.end().await else { panic!("it was let in once") };
    assert!(why.contains(words), "{why}");
    assert_eq!(rig.get("/").await.unwrap_err(), TunnelError::Disconnected);
}

#[tokio::test(flavor = "multi_thread")]
async fn f14_who_may_serve_one_workload_may_not_serve_another() {
    let rig = Rig::start().await;
    let mut config = rig.config("x", &[format!("{PORT}=1")]);
    config.workload = WorkloadName::new("shop", "payments-local");
    let mut agent = Running::start(config, "ann", rig.address);
    assert!(matches!(agent.end().await, AgentError::Refused(why) if why.contains("may not connect")));
}

#[tokio::test(flavor = "multi_thread")]
async fn f14_another_user_is_told_who_is_connected_and_may_insist() {
    let (rig, mine, yours) = (Rig::start().await, App::start("ann's").await, App::start("bob's").await);
    rig.people.allow("bob");
    let mut ann = rig.ann(&[format!("{PORT}={}", mine.to_local())]).await;
    let mappings = [format!("{PORT}={}", yours.to_local())];
    let mut bob = Running::start(rig.config("bob-1", &mappings), "bob", rig.address);
    let AgentError::Fenced(why) = bob.end().await else { panic!("he was let in") };
    assert!(why.contains("ann is connected"), "{why}");
    assert!(rig.text("/hello/x").await.starts_with("ann's"));

    let mut config = rig.config("bob-2", &mappings);
    config.takeover = true;
    let _bob = Running::start(config, "bob", rig.address);
    rig.until(|it| it.user == "bob" && it.phase == SessionPhase::Connected).await;
    let AgentError::Fenced(why) = ann.end().await else { panic!("she goes on") };
    assert!(why.contains("bob took it over"), "{why}");
    assert!(rig.text("/hello/x").await.starts_with("bob's"));
}

#[tokio::test(flavor = "multi_thread")]
async fn f14_who_is_connected_to_another_gateway_is_not_thrown_out_by_who_knocks_at_this_one() {
    let rig = Rig::start().await;
    let there = |session: &str| SessionHolder { session: session.to_owned(), user: "ann".to_owned() };
    *rig.people.told.lock().unwrap() = (5, Some(there("desktop")));
    rig.people.allow("ann");
    rig.people.allow("bob");
    let mut bob = Running::start(rig.config("bob-1", &[format!("{PORT}=1")]), "bob", rig.address);
    let AgentError::Fenced(why) = bob.end().await else { panic!("he was let in") };
    assert!(why.contains("ann is connected"), "{why}");

    // A laptop that slept while its user went on at the desktop.
    let knock = |session: &str, epoch: u64| {
        format!(
            "GET /tunnel/v1/shop/cart-local HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: capt-tunnel/1\r\n\
             authorization: Bearer ann\r\ncapt-tunnel-session: {session}\r\ncapt-tunnel-epoch: {epoch}\r\n\r\n"
        )
    };
    let laptop = answer(rig.address, &knock("laptop", 4)).await;
    assert!(laptop.starts_with("HTTP/1.1 409 "), "{laptop}");
    let desktop = answer(rig.address, &knock("desktop", 5)).await;
    assert!(desktop.contains("capt-tunnel-epoch: 6"), "{desktop}");
}

/// The head of an answer.
async fn answer(to: SocketAddr, lines: &str) -> String {
    let mut socket = TcpStream::connect(to).await.unwrap();
    socket.write_all(lines.as_bytes()).await.unwrap();
    let mut said = String::new();
    while !said.contains("\r\n\r\n") {
        said.push(char::from(socket.read_u8().await.unwrap()));
    }
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn f14_the_newer_agent_of_a_user_has_the_place_and_the_older_one_ends() {
    let (rig, old, new) = (Rig::start().await, App::start("old").await, App::start("new").await);
    let mut first = rig.ann(&[format!("{PORT}={}", old.to_local())]).await;
    let second =
        Running::start(rig.config("ann-2", &[format!("{PORT}={}", new.to_local())]), "ann", rig.address);
    rig.until(|it| it.session == "ann-2" && it.phase == SessionPhase::Connected).await;
    assert!(matches!(first.end().await, AgentError::Fenced(_)));
    for _ in 0..50 {
        assert!(rig.text("/hello/x").await.starts_with("new"), "the old epoch got a request");
    }
    assert_eq!(rig.gateway.session(&cart()).unwrap().epoch, 2);
    assert_eq!(second.view.borrow().state, AgentState::Connected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_older_agent_is_doing_may_be_finished() {
    let (rig, old, new) = (Rig::start().await, App::start("old").await, App::start("new").await);
    let _first = rig.ann(&[format!("{PORT}={}", old.to_local())]).await;
    let under_way = rig.get("/big/8").await.unwrap();
    let _second =
        Running::start(rig.config("ann-2", &[format!("{PORT}={}", new.to_local())]), "ann", rig.address);
    rig.until(|it| it.session == "ann-2" && it.phase == SessionPhase::Connected).await;
    assert_eq!(super::app::count(under_way.into_body()).await, 8 * super::app::MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_no_longer_is_thrown_out_and_let_in_again_when_they_may() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let mut agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    rig.people.refuse("ann", AuthorizeError::Forbidden("ann has left the team".to_owned()));
    let view = rig.until(|it| it.phase == SessionPhase::Disconnected).await;
    assert_eq!(view.why.as_deref(), Some("ann has left the team"));
    assert_eq!(rig.get("/hello/x").await.unwrap_err(), TunnelError::Disconnected, "there is no grace");
    agent
        .until(|it| matches!(&it.state, AgentState::Waiting { why, .. } if why.contains("left the team")))
        .await;
    rig.people.allow("ann");
    rig.until_connected().await;
    assert!(rig.text("/hello/x").await.starts_with("cart"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_thrown_out_because_nobody_can_be_asked() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let _agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    rig.people.refuse("ann", AuthorizeError::Unavailable("the API server is away".to_owned()));
    let before = rig.people.asked.load(Ordering::Relaxed);
    let asked = || async { rig.people.asked.load(Ordering::Relaxed) > before + 3 };
    eventually("somebody is asked again and again", asked).await;
    let view = rig.gateway.session(&cart()).unwrap();
    assert_eq!((view.phase, view.epoch), (SessionPhase::Connected, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_session_that_is_meant_is_given_up() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let mut agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    rig.gateway.fence_session(&cart(), 7, "somebody else has it");
    assert!(rig.text("/hello/x").await.starts_with("cart"));
    rig.gateway.fence_session(&cart(), 1, "somebody else has it");
    assert_eq!(agent.end().await, AgentError::Fenced("somebody else has it".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_that_is_gone_ends_its_agent() {
    let (rig, app) = (Rig::start().await, App::start("cart").await);
    let mut agent = rig.ann(&[format!("{PORT}={}", app.to_local())]).await;
    rig.gateway.remove_workload(&cart(), "the LocalWorkload was deleted");
    assert_eq!(agent.end().await, AgentError::Fenced("the LocalWorkload was deleted".to_owned()));
    assert_eq!(rig.get("/hello/x").await.unwrap_err(), TunnelError::Disconnected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_agent_gets_an_answer_and_nothing_else() {
    let rig = Rig::start().await;
    let long = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(2_000_000));
    for words in ["GET / HTTP/1.1\r\nhost: x\r\n\r\n", "\0\0\0nonsense\r\n\r\n", &long] {
        let mut socket = TcpStream::connect(rig.address).await.unwrap();
        // It may hang up before it has heard everything.
        let _hung_up = socket.write_all(words.as_bytes()).await;
        let mut answer = Vec::new();
        let read = socket.read_to_end(&mut answer);
        let _reset = tokio::time::timeout(PATIENCE, read).await.expect("it holds the line");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tls_the_gateway_is_known_by_its_certificate() {
    use sandbox_router::tunnel::agent::{Agent, TlsDialer};
    use tokio_rustls::rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        pki_types::{PrivatePkcs8KeyDer, ServerName},
    };

    let app = App::start("cart").await;
    let made = rcgen::generate_simple_self_signed(vec!["gateway.test".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let certificate = made.cert.der().clone();
    let server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .unwrap();
    let people = Arc::new(People::default());
    people.allow("ann");
    let gateway = Gateway::new(people, quick());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let stop = CancellationToken::new();
    let running = tokio::spawn(Arc::clone(&gateway).serve(listener, Some(Arc::new(server)), stop.clone()));

    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let dial = |name: &'static str| {
        let server = ServerName::try_from(name).unwrap();
        let authority = "a file".to_owned();
        Arc::new(TlsDialer {
            address: address.clone(),
            server_name: server,
            config: Arc::new(config.clone()),
            authority,
        })
    };
    let mappings = [format!("{PORT}={}", app.to_local())];
    let agent = |name: &'static str| {
        let tokens = Arc::new(super::rig::Name("ann".to_owned()));
        Agent::new(super::rig::config(&quick(), name, &mappings), dial(name), tokens)
    };
    let wrong = agent("other.test");
    let refused = wrong.run(CancellationToken::new()).await.unwrap_err().to_string();
    assert!(refused.contains(&format!("{address} is not trusted")), "{refused}");
    assert!(refused.contains("other.test by the authority in a file"), "{refused}");
    assert!(gateway.session(&cart()).is_none());

    let right = agent("gateway.test");
    let mut view = right.watch();
    tokio::spawn(async move { right.run(CancellationToken::new()).await });
    view.wait_for(|it| it.state == AgentState::Connected).await.unwrap();
    let answer = gateway.request(&cart(), PORT, super::rig::get("/big/4")).await.unwrap();
    assert_eq!(super::app::count(answer.into_body()).await, 4 * super::app::MIB);
    stop.cancel();
    tokio::time::timeout(PATIENCE, running).await.expect("it does not end").unwrap();
}
