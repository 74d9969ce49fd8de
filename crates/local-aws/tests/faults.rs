//! Fault injection through the admin API, for EKS and for services behind moto.

use std::time::{Duration, Instant};

use crate::common::start;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn the_nth_call_fails_as_ordered_in_the_dialect_of_its_service() {
    let (aws, client) = start().await;
    let error = json!({ "code": "ServerException", "message": "a <bad> day", "status": 500 });
    client.fault(json!({ "operation": "ListClusters", "nth": 2, "error": error })).await;
    client.fault(json!({ "operation": "DescribeVpcs", "service": "ec2", "error": { "code": "UnauthorizedOperation", "message": "no & no", "status": 403 } })).await;
    client
        .fault(json!({ "operation": "GetRole", "error": { "code": "AccessDenied", "message": "no" } }))
        .await;
    client.fault(json!({ "operation": "DescribeLogGroups", "error": { "code": "ServiceUnavailableException", "status": 503 } })).await;

    assert_eq!(client.eks("GET", "/clusters", Value::Null).await.status, 200);
    let failed = client.eks("GET", "/clusters", Value::Null).await;
    assert_eq!((failed.status, failed.header("x-amzn-errortype")), (500, "ServerException"));
    assert_eq!(failed.json()["message"], "a <bad> day");
    assert_eq!(client.eks("GET", "/clusters", Value::Null).await.status, 200);

    let failed = client.query("ec2", "Action=DescribeVpcs&Version=2016-11-15").await;
    assert_eq!(
        (failed.status, failed.xml("Code"), failed.xml("Message")),
        (403, "UnauthorizedOperation".into(), "no &amp; no".into())
    );
    assert!(failed.text.starts_with("<Response><Errors>"));
    let failed = client.query("iam", "Action=GetRole&Version=2010-05-08&RoleName=x").await;
    assert_eq!((failed.status, failed.xml("Code")), (400, "AccessDenied".into()));
    assert!(failed.text.starts_with("<ErrorResponse>"));
    let failed = client.target("logs", "Logs_20140328.DescribeLogGroups", json!({})).await;
    assert_eq!((failed.status, &failed.json()["__type"]), (503, &json!("ServiceUnavailableException")));

    let log = client.admin("GET", "calls?operation=ListClusters", Value::Null).await.json();
    let errors: Vec<_> = log["calls"].as_array().unwrap().iter().map(|call| call["error"].clone()).collect();
    assert_eq!(errors, [json!(null), json!("ServerException"), json!(null)]);
    aws.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn throttling_tells_the_client_to_wait() {
    let (aws, client) = start().await;
    client.fault(json!({ "operation": "*", "times": 3, "throttle": true })).await;
    let eks = client.eks("GET", "/clusters", Value::Null).await;
    assert_eq!(
        (eks.status, eks.header("x-amzn-errortype"), eks.header("retry-after")),
        (429, "ThrottlingException", "1")
    );
    let ec2 = client.query("ec2", "Action=DescribeVpcs&Version=2016-11-15").await;
    assert_eq!(
        (ec2.status, ec2.xml("Code"), ec2.header("retry-after")),
        (503, "RequestLimitExceeded".into(), "1")
    );
    let iam = client.query("iam", "Action=ListRoles&Version=2010-05-08").await;
    assert_eq!((iam.status, iam.xml("Code")), (400, "Throttling".into()));
    assert_eq!(client.eks("GET", "/clusters", Value::Null).await.status, 200, "three were ordered");
    aws.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_is_a_delay_and_cleared_faults_are_gone() {
    let (aws, client) = start().await;
    let delay = Duration::from_millis(300);
    client.fault(json!({ "operation": "ListClusters", "delay_ms": 300 })).await;
    let begun = Instant::now();
    assert_eq!(client.eks("GET", "/clusters", Value::Null).await.status, 200);
    assert!(begun.elapsed() >= delay);
    client.admin("DELETE", "faults", Value::Null).await;
    // An hour is longer than the client waits.
    client.fault(json!({ "operation": "ListClusters", "times": 0, "delay_ms": 3_600_000 })).await;
    assert_eq!(
        client.admin("GET", "faults", Value::Null).await.json()["faults"].as_array().unwrap().len(),
        1
    );
    client.admin("DELETE", "faults", Value::Null).await;
    assert_eq!(client.eks("GET", "/clusters", Value::Null).await.status, 200);
    aws.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_connection_leaves_the_work_done_and_a_retry_finds_it() {
    let (aws, client) = start().await;
    let ground = client.ground().await;
    client
        .fault(json!([
            { "operation": "CreateCluster", "drop_after_work": true },
            { "operation": "CreateInternetGateway", "drop_after_work": true },
        ]))
        .await;
    let mut request = ground.cluster("demo");
    request["clientRequestToken"] = json!("token-1");
    let dropped = client.try_eks("POST", "/clusters", request.clone()).await;
    assert!(dropped.is_err(), "{dropped:?}");
    assert_eq!(client.eks_ok("GET", "/clusters", Value::Null).await["clusters"], json!(["demo"]));
    client.eks_ok("POST", "/clusters", request).await;

    assert!(client.try_query("ec2", "Action=CreateInternetGateway&Version=2016-11-15").await.is_err());
    assert!(client.inventory().await.iter().any(|(_, kind, _)| kind == "internet-gateway"));
    let log = client.admin("GET", "calls?operation=CreateCluster", Value::Null).await.json();
    assert_eq!(log["calls"][0]["error"], "ConnectionDropped");
    aws.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_clusters_and_updates_are_put_into_failed_states() {
    let (aws, client) = start().await;
    let ground = client.ground().await;
    client.eks_ok("POST", "/clusters", ground.cluster("demo")).await;
    let issues =
        json!([{ "code": "PodExecutionRoleAlreadyInUse", "message": "in use", "resourceIds": ["pods"] }]);
    let order = json!({ "cluster": "demo", "profile": "one", "status": "CREATE_FAILED", "issues": issues, "next": true });
    assert_eq!(client.admin("POST", "eks/profile-state", order).await.status, 200);
    client.eks_ok("POST", "/clusters/demo/fargate-profiles", ground.profile("one", &ground.pods)).await;
    let profile =
        client.eks_ok("GET", "/clusters/demo/fargate-profiles/one", Value::Null).await["fargateProfile"]
            .clone();
    assert_eq!((&profile["status"], &profile["health"]["issues"]), (&json!("CREATE_FAILED"), &issues));

    let order = json!({ "cluster": "demo", "profile": "one", "status": "ACTIVE" });
    client.admin("POST", "eks/profile-state", order).await;
    let profile =
        client.eks_ok("GET", "/clusters/demo/fargate-profiles/one", Value::Null).await["fargateProfile"]
            .clone();
    assert_eq!((&profile["status"], &profile["health"]["issues"]), (&json!("ACTIVE"), &json!([])));

    let ill = json!({ "cluster": "demo", "issues": [{ "code": "IamRoleNotFound", "message": "gone" }] });
    client.admin("POST", "eks/cluster-health", ill).await;
    let cluster = client.eks_ok("GET", "/clusters/demo", Value::Null).await;
    assert_eq!(cluster["cluster"]["health"]["issues"][0]["code"], "IamRoleNotFound");

    let failure =
        json!({ "cluster": "demo", "errors": [{ "errorCode": "SubnetNotFound", "errorMessage": "gone" }] });
    assert_eq!(client.admin("POST", "eks/update-failure", failure).await.status, 200);
    let update =
        client.eks_ok("POST", "/clusters/demo/update-config", json!({ "deletionProtection": true })).await;
    let path = format!("/clusters/demo/updates/{}", update["update"]["id"].as_str().unwrap());
    assert_eq!(client.eks_ok("GET", &path, Value::Null).await["update"]["status"], "Failed");
    aws.shutdown().await;
}
