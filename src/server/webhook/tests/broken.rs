//! Bugs, silence and garbage: whatever happens, no object is lost.

use super::{references::foreign_apply, verdicts::apply, *};

struct Broken;

impl Lookup for Broken {
    fn template<'a>(&'a self, _: &'a ObjectKey) -> LookupFuture<'a, WorkspaceTemplate> {
        panic!("a bug")
    }

    fn workspace<'a>(&'a self, _: &'a ObjectKey) -> LookupFuture<'a, Annotations> {
        futures::future::pending().boxed()
    }

    fn namespace<'a>(&'a self, _: &'a Namespace) -> LookupFuture<'a, Annotations> {
        futures::future::pending().boxed()
    }

    fn secret<'a>(&'a self, _: &'a ObjectKey) -> LookupFuture<'a, Annotations> {
        futures::future::pending().boxed()
    }

    fn config_map<'a>(&'a self, _: &'a ObjectKey) -> LookupFuture<'a, Annotations> {
        futures::future::pending().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_bug_or_an_answer_that_does_not_come_lets_the_object_pass() {
    let deadline = std::time::Duration::from_millis(200);
    let settings = ReviewSettings { lookup: Arc::new(Broken), limits: Limits::default(), deadline };
    let webhook = Webhook { settings: Arc::new(settings), timeouts: HttpTimeouts::default() };
    for (object, warning) in
        [(apply(&json!({})), "because of an internal error"), (foreign_apply(), "in time")]
    {
        let (status, answer) = webhook.review(&body("CREATE", Some(&object), None)).await;
        assert_eq!(status, StatusCode::OK);
        let heard = heard(&answer);
        assert!(heard.refusal.is_none(), "{heard:?}");
        assert!(heard.warnings[0].contains(warning), "{heard:?}");
    }
}

#[tokio::test]
async fn a_body_that_is_no_review_is_a_bad_request() {
    let webhook = Webhook::new(Arc::new(NoLookup), Limits::default());
    for garbage in
        ["", "{", "[]", "{}", "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\"}"]
    {
        let (status, _) = webhook.review(garbage.as_bytes()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{garbage}");
    }
}

#[tokio::test]
async fn text_that_is_nested_too_deep_does_not_end_the_process() {
    for open in ["(", "[", "{a=", "\"${", "!"] {
        let module = format!("locals {{\n  a = {}\n}}\n", open.repeat(20_000));
        let heard = create(Cluster::default(), &template(&module)).await;
        assert!(heard.refusal.is_some() || !heard.warnings.is_empty(), "{open}");
    }
}
