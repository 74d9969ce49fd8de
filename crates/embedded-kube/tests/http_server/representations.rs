//! Paths, methods, media types and representations.

use http::Request;
use serde_json::json;

use super::{MAPS, config_map, get, listening, memory, over_tls, post, send};

#[tokio::test]
async fn a_path_that_leads_nowhere_is_answered_as_the_real_server_answers_it() {
    let kube = memory().await;
    let client = kube.client();
    for path in ["/nowhere", "/apis/none.example/v1/things", "/apis/none.example/v1", "/apis/none.example"] {
        let answer = get(&client, path).await;
        assert_eq!((answer.code, answer.text.as_str()), (404, "404 page not found\n"), "{path}");
    }
    for path in
        ["/api/v1/things", "/apis/apps/v1/things", "/api/v1/configmaps/x", "/api/v1/namespaces/a/nodes"]
    {
        let answer = get(&client, path).await;
        assert_eq!(answer.code, 404, "{path}");
        assert_eq!(answer.message(), "the server could not find the requested resource", "{path}");
        assert_eq!(answer.json()["details"], json!({}), "{path}");
    }
}

#[tokio::test]
async fn a_method_that_a_path_does_not_have_is_refused() {
    let kube = memory().await;
    let client = kube.client();
    let answer = post(&client, "/api/v1/configmaps", &config_map("x")).await;
    assert_eq!(answer.code, 405);
    assert_eq!(answer.message(), "the server does not allow this method on the requested resource");
    assert_eq!(answer.json()["reason"], "MethodNotAllowed");
}

#[tokio::test]
async fn media_types_are_refused_with_the_real_texts() {
    let kube = memory().await;
    let client = kube.client();
    let post = Request::post(MAPS).header("content-type", "text/plain");
    let answer = send(&client, post, "hello").await;
    assert_eq!(answer.code, 415);
    assert_eq!(
        answer.message(),
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"
    );
    let patch = Request::patch(format!("{MAPS}/x")).header("content-type", "application/json");
    let answer = send(&client, patch, "{}").await;
    assert_eq!((answer.code, answer.message().as_str()), (415, "415: Unsupported Media Type"));
    let answer = send(&client, Request::get(MAPS).header("accept", "image/png"), "").await;
    assert_eq!(answer.code, 406);
    assert!(answer.message().starts_with("406: Not Acceptable"), "{}", answer.text);
}

#[tokio::test]
async fn a_body_that_is_too_large_or_malformed_is_refused() {
    let kube = memory().await;
    let client = kube.client();
    let large = json!({"metadata": {"name": "x"}, "data": {"a": "x".repeat(4 << 20)}});
    let answer = post(&client, MAPS, &large).await;
    assert_eq!((answer.code, answer.message().as_str()), (413, "Request entity too large: limit is 3145728"));
    let request = Request::post(MAPS).header("content-type", "application/json");
    let answer = send(&client, request, "{\"kind\": ").await;
    assert_eq!(answer.code, 400);
    assert!(answer.message().contains("unexpected end of JSON input"), "{}", answer.text);
    let deep = "[".repeat(200_000);
    let answer = send(&client, Request::post(MAPS), deep).await;
    assert_eq!(answer.code, 400);
}

#[tokio::test]
async fn a_client_that_still_writes_sees_that_its_body_is_too_large() {
    let kube = listening().await;
    let client = over_tls(&kube, None).await;
    for _ in 0..5 {
        let request = Request::post(MAPS).header("content-type", "application/json");
        assert_eq!(send(&client, request, vec![b'x'; 10 << 20]).await.code, 413);
    }
}

#[tokio::test]
async fn a_deprecated_kind_says_so_on_reads_and_refusals_too() {
    let kube = memory().await;
    let (client, path) = (kube.client(), "/api/v1/namespaces/default/endpoints");
    let bad = json!({"metadata": {"name": "f"}, "subsets": [{"addresses": [{"ip": "nowhere"}]}]});
    let answers = [
        post(&client, path, &json!({"metadata": {"name": "e"}})).await,
        post(&client, path, &bad).await,
        get(&client, path).await,
        get(&client, &format!("{path}/none")).await,
        get(&client, &format!("{path}?watch=1&timeoutSeconds=1")).await,
    ];
    assert_eq!(answers.each_ref().map(|answer| answer.code), [201, 422, 200, 404, 200]);
    for answer in answers {
        let warnings: Vec<_> = answer.headers.get_all("warning").iter().collect();
        let text = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
        assert_eq!(warnings, [&format!("299 - \"{text}\"")], "{}", answer.code);
    }
}

#[tokio::test]
async fn a_query_that_is_no_number_is_refused() {
    let kube = memory().await;
    let answer = get(&kube.client(), &format!("{MAPS}?limit=ten")).await;
    assert_eq!((answer.code, answer.json()["reason"].as_str()), (400, Some("BadRequest")));
    assert_eq!(answer.message(), "strconv.ParseInt: parsing \"ten\": invalid syntax");
}

#[tokio::test]
async fn lists_tables_and_partial_objects_have_their_shapes() {
    let kube = memory().await;
    let client = kube.client();
    for name in ["one", "two"] {
        assert_eq!(post(&client, MAPS, &config_map(name)).await.code, 201);
    }
    let list = get(&client, MAPS).await.json();
    assert_eq!((list["kind"].as_str(), list["items"].as_array().unwrap().len()), (Some("ConfigMapList"), 2));
    assert!(list["items"][0].get("kind").is_none(), "items of built-in lists carry no type");
    assert_eq!(list["items"][1]["data"], json!({"a": "b"}));

    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let table = send(&client, Request::get(MAPS).header("accept", accept), "").await.json();
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["columnDefinitions"][0]["name"], "Name");
    assert_eq!(table["rows"][0]["cells"][0], "one");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let bare = Request::get(format!("{MAPS}?includeObject=None")).header("accept", accept);
    assert_eq!(send(&client, bare, "").await.json()["rows"][0]["object"], json!(null));
    let wrong = Request::get(format!("{MAPS}?includeObject=Some")).header("accept", accept);
    assert_eq!(send(&client, wrong, "").await.code, 400);

    let partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let partial = send(&client, Request::get(MAPS).header("accept", partial), "").await.json();
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert!(partial["items"][0].get("data").is_none());
    let wrong = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    assert_eq!(send(&client, Request::get(MAPS).header("accept", wrong), "").await.code, 406);
}

#[tokio::test]
async fn yaml_goes_in_and_out() {
    let kube = memory().await;
    let client = kube.client();
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: written}\ndata: {k: v}\n";
    let request =
        Request::post(MAPS).header("content-type", "application/yaml").header("accept", "application/yaml");
    let answer = send(&client, request, yaml).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "application/yaml");
    assert!(answer.text.contains("\ndata:\n  k: v\n"), "{}", answer.text);
}

#[tokio::test]
async fn unknown_fields_are_warned_of_in_a_header() {
    let kube = memory().await;
    let mut object = config_map("w");
    object["nonsense"] = json!(1);
    let answer = post(&kube.client(), MAPS, &object).await;
    assert_eq!(answer.code, 201);
    assert_eq!(answer.headers["warning"], "299 - \"unknown field \\\"nonsense\\\"\"");
}

#[tokio::test]
async fn health_and_version_are_told() {
    let kube = memory().await;
    let client = kube.client();
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        assert_eq!(get(&client, path).await.text, "ok", "{path}");
    }
    let verbose = get(&client, "/readyz?verbose").await.text;
    assert!(verbose.contains("[+]ping ok\n") && verbose.ends_with("readyz check passed\n"), "{verbose}");
    assert_eq!(get(&client, "/version").await.json()["gitVersion"], "v1.36.3");
}
