//! Two fuzz targets: request bodies and patches.
//!
//! Mutated input passes through the whole server, in process. The server must never report an internal error, panic or
//! hang, and its store must stay consistent. Two seconds each in an ordinary test run; `FUZZ_SECONDS=60` in CI. A
//! failure prints the seed and the input; `FUZZ_SEED` repeats it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on stops, and says where"
)]

mod mutate;
mod seeds;

use std::time::{Duration, Instant};

use embedded_kube::cluster::EmbeddedKube;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;

use self::{mutate::Mutator, seeds::Seed};

/// A longer request counts as a hang, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
/// Minimum number of inputs, even on a slow machine.
const LEAST: u64 = 256;

#[expect(clippy::disallowed_methods, reason = "how long and from where is the caller's choice")]
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[tokio::test]
async fn bodies_of_requests_never_break_the_server() {
    run("bodies", &seeds::bodies()).await;
}

#[tokio::test]
async fn patches_never_break_the_server() {
    run("patches", &seeds::patches()).await;
}

async fn run(target: &str, seeds: &[Seed]) {
    let kube = EmbeddedKube::builder().in_memory().start().await.unwrap();
    for object in seeds::fixtures() {
        let code = send(&kube, &object, object.body.clone()).await.0;
        assert!((200..300).contains(&code), "the fixture {} is refused with {code}", object.path);
    }
    let seed = setting("FUZZ_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let until = Instant::now() + Duration::from_secs(setting("FUZZ_SECONDS").unwrap_or(2));
    let mut mutator = Mutator::new(seed);
    let (mut tried, mut accepted) = (0_u64, 0_u64);
    while tried < LEAST || Instant::now() < until {
        let base = mutator.choose(seeds);
        let body = mutator.mutate(&base.body, seeds);
        let shown =
            || format!("seed {seed}, {} {}\n{}", base.method, base.path, String::from_utf8_lossy(&body));
        let answer = tokio::time::timeout(PATIENCE, send(&kube, base, body.clone())).await;
        let (code, text) = answer.unwrap_or_else(|_| panic!("no answer: {}", shown()));
        // kube-apiserver answers some odd patches with 500 and no reason, and so do we; an internal error has a reason.
        assert!(code < 500 || !text.contains("\"reason\""), "{code} {text}: {}", shown());
        tried += 1;
        accepted += u64::from(code < 300);
        if tried.is_multiple_of(256) {
            check(&kube, seed).await;
        }
    }
    check(&kube, seed).await;
    assert!(accepted > 0, "nothing was accepted: the mutations are too wild to reach anything");
    eprintln!("{target}: {tried} inputs, {accepted} accepted, seed {seed}");
    kube.stop().await;
}

/// Everything stored is readable and consistent.
async fn check(kube: &EmbeddedKube, seed: u64) {
    for path in seeds::COLLECTIONS {
        let request = http::Request::get(*path).body(Body::empty()).unwrap();
        let answer = kube.client().send(request).await.unwrap();
        assert_eq!(answer.status(), 200, "seed {seed}: {path}");
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let list: Value =
            serde_json::from_slice(&bytes).unwrap_or_else(|why| panic!("seed {seed}: {path}: {why}"));
        for item in list["items"].as_array().into_iter().flatten() {
            assert!(item["metadata"]["name"].is_string(), "seed {seed}: an object without a name: {item}");
            assert!(item["metadata"]["uid"].is_string(), "seed {seed}: an object without a uid: {item}");
        }
    }
}

async fn send(kube: &EmbeddedKube, base: &Seed, body: Vec<u8>) -> (u16, String) {
    let request = http::Request::builder()
        .method(base.method)
        .uri(base.path)
        .header("content-type", base.content_type)
        .body(Body::from(body))
        .unwrap();
    let answer = kube.client().send(request).await.unwrap_or_else(|why| panic!("no answer: {why}"));
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8_lossy(&bytes).into_owned())
}
