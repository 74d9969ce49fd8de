//! EKS tokens with an STS that knows one key.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use embedded_kube::{
    auth::{AccessEntry, StsConfig},
    cluster::{EmbeddedKube, ListenConfig},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{get, over_tls, post};

/// Serves one request per connection; rejects it unless it has the cluster name and the key `AKGOOD`. A lenient server
/// accepts every request.
async fn sts(calls: Arc<AtomicUsize>, lenient: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            calls.fetch_add(1, Ordering::SeqCst);
            let mut head = vec![0; 8192];
            let size = socket.read(&mut head).await.unwrap();
            let head = String::from_utf8_lossy(&head[..size]).to_lowercase();
            let good = head.starts_with("get /?action=getcalleridentity&")
                && head.contains("x-k8s-aws-id: shop\r\n")
                && (lenient || head.contains("akgood"));
            let (code, body) = if good {
                (
                    "200 OK",
                    "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:sts::000000000000:assumed-role/boss/me</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>",
                )
            } else {
                ("403 Forbidden", "<Error/>")
            };
            let answer = format!(
                "HTTP/1.1 {code}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    format!("http://{address}")
}

fn token(key: &str, age: i64) -> String {
    #[expect(clippy::disallowed_methods, reason = "a token is fresh or not by the real clock")]
    let at = jiff::Timestamp::now().checked_sub(jiff::SignedDuration::from_secs(age)).unwrap();
    let at = at.to_zoned(jiff::tz::TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = at.split('T').next().unwrap();
    let url = format!(
        "https://sts.eu-west-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={key}%2F{day}%2Feu-west-1%2Fsts%2Faws4_request&X-Amz-Date={at}&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id&X-Amz-Signature=00"
    );
    format!("k8s-aws-v1.{}", BASE64_URL_SAFE_NO_PAD.encode(url))
}

async fn cluster(endpoint: String, secrets: Vec<(String, String)>) -> EmbeddedKube {
    let access = vec![AccessEntry::admin("arn:aws:iam::000000000000:role/boss")].into();
    let sts = StsConfig { endpoint, cluster: "shop".to_owned(), access_entries: access, secrets };
    EmbeddedKube::builder()
        .controllers(false)
        .sts(sts)
        .listen(ListenConfig::loopback())
        .start()
        .await
        .unwrap()
}

#[tokio::test]
async fn an_sts_that_checks_nothing_is_never_asked_about_keys_and_signatures_that_are_not_ours() {
    let calls = Arc::new(AtomicUsize::new(0));
    let endpoint = sts(Arc::clone(&calls), true).await;
    let secrets = vec![("AKGOOD".to_owned(), "hush".to_owned())];
    let strict = cluster(endpoint.clone(), secrets).await;
    for key in ["AKMADEUP", "AKGOOD"] {
        assert_eq!(get(&over_tls(&strict, Some(&token(key, 0))).await, "/healthz").await.code, 401, "{key}");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    let trusting = cluster(endpoint, Vec::new()).await;
    assert_eq!(get(&over_tls(&trusting, Some(&token("AKMADEUP", 0))).await, "/healthz").await.code, 200);
}

#[tokio::test]
async fn an_eks_token_is_good_while_sts_knows_it_and_its_owner_has_access() {
    let calls = Arc::new(AtomicUsize::new(0));
    let kube = cluster(sts(Arc::clone(&calls), false).await, Vec::new()).await;
    let good = over_tls(&kube, Some(&token("AKGOOD", 0))).await;
    for _ in 0..3 {
        assert_eq!(get(&good, "/api/v1/secrets").await.code, 200);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1, "the answer is remembered");
    let me = post(&good, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &serde_json::json!({})).await;
    assert_eq!(me.json()["status"]["userInfo"]["username"], "arn:aws:iam::000000000000:role/boss");
    assert_eq!(get(&over_tls(&kube, Some(&token("AKBAD", 0))).await, "/healthz").await.code, 401);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(get(&over_tls(&kube, Some(&token("AKGOOD", 1000))).await, "/healthz").await.code, 401);
    assert_eq!(calls.load(Ordering::SeqCst), 2, "an expired token is not even shown to STS");
}
