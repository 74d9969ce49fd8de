//! The front end with a real moto behind it.

use crate::common::{config, shared, start, start_with};
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_a_profile_is_built_on_moto_and_leaves_nothing_behind() {
    let (aws, client) = start().await;
    let ground = client.ground().await;
    let pods = ground.pods.clone();
    client.eks_ok("POST", "/clusters", ground.cluster("demo")).await;
    let cluster = client.eks_ok("GET", "/clusters/demo", Value::Null).await["cluster"].clone();
    assert_eq!(cluster["status"], "ACTIVE");
    assert_eq!(cluster["resourcesVpcConfig"]["vpcId"], json!(ground.vpc));
    let group = cluster["resourcesVpcConfig"]["clusterSecurityGroupId"].as_str().unwrap();
    let described = client.ec2(&format!("Action=DescribeSecurityGroups&GroupId.1={group}")).await;
    assert!(described.xml("groupName").starts_with("eks-cluster-sg-demo-"), "{}", described.text);
    client.eks_ok("POST", "/clusters/demo/fargate-profiles", ground.profile("one", &pods)).await;

    let names = client.inventory().await;
    let has = |service: &str, kind: &str, name: &str| {
        let wanted = (service.to_owned(), kind.to_owned(), name.to_owned());
        assert!(names.contains(&wanted), "{wanted:?} in {names:?}");
    };
    has("eks", "cluster", "demo");
    has("eks", "fargate-profile", "demo/one");
    has("eks", "access-entry", &format!("demo/{pods}"));
    has("iam", "role", &ground.pods_name);
    assert_eq!(
        names.iter().filter(|(_, kind, _)| kind == "subnet").count(),
        2,
        "the default VPC's do not count"
    );
    assert!(names.is_sorted());

    client.eks_ok("DELETE", "/clusters/demo/fargate-profiles/one", Value::Null).await;
    client.eks_ok("DELETE", "/clusters/demo", Value::Null).await;
    for subnet in &ground.subnets {
        client.ec2(&format!("Action=DeleteSubnet&SubnetId={subnet}")).await;
    }
    client.ec2(&format!("Action=DeleteVpc&VpcId={}", ground.vpc)).await;
    client.iam(&format!("Action=DeleteRole&RoleName={}", ground.pods_name)).await;
    client.iam(&format!("Action=DeleteRole&RoleName={}", ground.role_name)).await;
    assert_eq!(client.inventory().await, []);
    aws.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_profile_names_is_looked_up_in_moto() {
    let client = shared().await;
    let ground = client.ground().await;
    let pods = ground.pods.clone();
    let nested = client.role("nested", "/team/", "eks-fargate-pods.amazonaws.com").await;
    client.eks_ok("POST", "/clusters", ground.cluster("looked-up")).await;
    let profiles = "/clusters/looked-up/fargate-profiles";
    let ghost = "arn:aws:iam::123456789012:role/ghost";
    for (role, text) in [
        (
            ground.role.as_str(),
            "Misconfigured PodExecutionRole Trust Policy; Please add the eks-fargate-pods.amazonaws.com Service Principal to the role's trust policy",
        ),
        (nested.as_str(), "path"),
        (ghost, "does not exist"),
    ] {
        let answer = client.eks("POST", profiles, ground.profile("one", role)).await;
        assert_eq!((answer.status, answer.header("x-amzn-errortype")), (400, "InvalidParameterException"));
        let body = answer.json();
        assert!(body["message"].as_str().unwrap().contains(text), "{body}");
        assert_eq!((&body["clusterName"], &body["fargateProfileName"]), (&json!("looked-up"), &json!("one")));
    }

    let gateway = client.ec2("Action=CreateInternetGateway").await.xml("internetGatewayId");
    client
        .ec2(&format!("Action=AttachInternetGateway&InternetGatewayId={gateway}&VpcId={}", ground.vpc))
        .await;
    let table =
        client.ec2(&format!("Action=CreateRouteTable&VpcId={}", ground.vpc)).await.xml("routeTableId");
    client
        .ec2(&format!(
            "Action=CreateRoute&RouteTableId={table}&DestinationCidrBlock=0.0.0.0/0&GatewayId={gateway}"
        ))
        .await;
    client
        .ec2(&format!("Action=AssociateRouteTable&RouteTableId={table}&SubnetId={}", ground.subnets[1]))
        .await;
    let answer = client.eks("POST", profiles, ground.profile("one", &pods)).await;
    let message = format!("Subnet {} provided in Fargate Profile is not a private subnet", ground.subnets[1]);
    assert_eq!(answer.json()["message"], json!(message));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_creator_of_a_cluster_is_the_identity_that_moto_knows() {
    let client = shared().await;
    let ground = client.ground().await;
    client.eks_ok("POST", "/clusters", ground.cluster("created")).await;
    let identity = client.query("sts", "Action=GetCallerIdentity&Version=2011-06-15").await.xml("Arn");
    let entries = client.eks_ok("GET", "/clusters/created/access-entries", Value::Null).await;
    assert_eq!(entries["accessEntries"], json!([identity.replace(":sts:", ":iam:")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_the_shape_of_rest_json() {
    let client = shared().await;
    let missing = client.eks("GET", "/clusters/ghost", Value::Null).await;
    assert_eq!((missing.status, missing.header("x-amzn-errortype")), (404, "ResourceNotFoundException"));
    assert_eq!(
        missing.json(),
        json!({ "clusterName": "ghost", "message": "No cluster found for name: ghost." })
    );
    assert!(!missing.header("x-amzn-requestid").is_empty());
    let unknown = client.eks("PATCH", "/clusters/x", Value::Null).await;
    assert_eq!((unknown.status, unknown.header("x-amzn-errortype")), (404, "UnknownOperationException"));
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_answered_and_survived() {
    let client = shared().await;
    let eks = |method: &str, path: &str, body: Vec<u8>| {
        let mut request = client.request(method, path, body);
        let scope = "AWS4-HMAC-SHA256 Credential=A/20261116/eu-west-1/eks/aws4_request, x";
        request.headers_mut().insert("authorization", scope.parse().unwrap());
        client.send(request)
    };
    for body in [&b"{"[..], b"\xff\xfe\x00", b"[]", b"null"] {
        let answer = eks("POST", "/clusters", body.to_vec()).await.unwrap();
        assert_eq!((answer.status, answer.header("x-amzn-errortype")), (400, "SerializationException"));
    }
    let huge = eks("POST", "/clusters", vec![b' '; 5 * 1024 * 1024]).await;
    // The server may close while the client still writes.
    assert!(huge.as_ref().map_or(true, |answer| answer.status == 413), "{huge:?}");
    for path in
        ["/%", "/clusters/%ff%00", "//", "/clusters?maxResults=-1", "/tags/", "/clusters/%2e%2e/addons"]
    {
        let answer = eks("GET", path, Vec::new()).await.unwrap();
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
    }
    for header in [
        "",
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 Credential=a/b",
        "AWS4-HMAC-SHA256 Credential=////aws4_request",
    ] {
        let mut request = client.request("POST", "/", "Action=Nonsense");
        request.headers_mut().insert("authorization", header.parse().unwrap());
        client.send(request).await.unwrap();
    }
    for (method, path, body, status) in [
        ("GET", "nothing", json!(null), 404),
        ("PUT", "health", json!(null), 404),
        ("POST", "faults", json!({ "operation": 7 }), 400),
        ("POST", "faults", json!([{ "operation": "X" }]), 400),
        ("POST", "timing", json!({ "cluster_create_ms": "long" }), 400),
        ("POST", "timing", json!({ "surplus": 1 }), 400),
        ("POST", "eks/profile-state", json!({ "cluster": "x", "profile": "y", "status": "ACTIVE" }), 404),
        ("POST", "eks/profile-state", json!({ "cluster": "x", "profile": "y", "status": "SLEEPING" }), 400),
    ] {
        assert_eq!(client.admin(method, path, body).await.status, status, "{method} {path}");
    }
    assert_eq!(client.health().await["status"], "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_page_cannot_use_the_admin_path() {
    let client = shared().await;
    let mut request = client.request("POST", "/_capt/shutdown", "");
    request.headers_mut().insert("origin", "https://evil.example".parse().unwrap());
    assert_eq!(client.send(request).await.unwrap().status, 403);
    assert_eq!(client.health().await["status"], "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_logged_with_their_key_and_count_as_activity() {
    let (aws, client) = start().await;
    client.eks("GET", "/clusters/ghost", Value::Null).await;
    client.iam("Action=ListRoles").await;
    client.target("logs", "Logs_20140328.DescribeLogGroups", json!({})).await;
    let log = client.admin("GET", "calls", Value::Null).await.json();
    let short: Vec<_> = log["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| {
            (c["service"].as_str().unwrap(), c["operation"].as_str().unwrap(), c["status"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(
        short,
        [("eks", "DescribeCluster", 404), ("iam", "ListRoles", 200), ("logs", "DescribeLogGroups", 200)]
    );
    assert!(log["calls"].as_array().unwrap().iter().all(|call| call["access_key"] == "AKIDTEST"));
    let only = client.admin("GET", "calls?service=iam&since=1", Value::Null).await.json();
    assert_eq!(only["calls"].as_array().unwrap().len(), 1);
    let pause = std::time::Duration::from_millis(60);
    tokio::time::sleep(pause).await;
    client.health().await;
    assert!(aws.idle_for() >= pause, "the admin path is no activity");
    aws.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timing_changes_while_it_runs() {
    let (aws, client) = start().await;
    let ground = client.ground().await;
    let answer = client.admin("POST", "timing", json!({ "cluster_create_ms": 600_000 })).await.json();
    assert_eq!(answer["timing"]["cluster_create_ms"], 600_000);
    assert_eq!(answer["timing"]["cluster_delete_ms"], 0, "what is not named stays");
    client.eks_ok("POST", "/clusters", ground.cluster("slow")).await;
    assert_eq!(client.eks_ok("GET", "/clusters/slow", Value::Null).await["cluster"]["status"], "CREATING");
    client.admin("POST", "timing", json!({ "limits": { "clusters": 1 } })).await;
    assert_eq!(
        client.eks("POST", "/clusters", ground.cluster("two")).await.header("x-amzn-errortype"),
        "ResourceLimitExceededException"
    );
    aws.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persisted_model_outlives_its_instance_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let persisted = || local_aws::Config { persist: Some(dir.path().join("eks.json")), ..config() };
    let (aws, client) = start_with(persisted()).await;
    let ground = client.ground().await;
    client.eks_ok("POST", "/clusters", ground.cluster("demo")).await;
    let first = aws.instance().to_owned();
    assert_eq!(client.health().await["restored_from"], Value::Null);
    aws.shutdown().await;

    let (aws, client) = start_with(persisted()).await;
    let cluster = client.eks_ok("GET", "/clusters/demo", Value::Null).await["cluster"].clone();
    assert!(cluster["resourcesVpcConfig"]["clusterSecurityGroupId"].as_str().unwrap().starts_with("sg-"));
    assert_ne!(aws.instance(), first, "moto has forgotten its VPC");
    assert_eq!(client.health().await["restored_from"], json!(first));
    aws.shutdown().await;
}

#[rstest]
#[case("us-gov-west-1", "aws-us-gov", "amazonaws.com")]
#[case("cn-north-1", "aws-cn", "amazonaws.com.cn")]
#[tokio::test(flavor = "multi_thread")]
async fn other_partitions_are_served_too(
    #[case] region: &str,
    #[case] partition: &str,
    #[case] suffix: &str,
) {
    let client = shared().await;
    let mut request = client.request("GET", "/access-policies", "");
    let scope = format!("AWS4-HMAC-SHA256 Credential=A/20261116/{region}/eks/aws4_request, x");
    request.headers_mut().insert("authorization", scope.parse().unwrap());
    let policies = client.send(request).await.unwrap().json();
    let arn = policies["accessPolicies"][0]["arn"].as_str().unwrap();
    assert!(arn.starts_with(&format!("arn:{partition}:eks::aws:cluster-access-policy/")), "{arn} {suffix}");
}

/// The token of `aws eks get-token` is such a request.
#[tokio::test(flavor = "multi_thread")]
async fn a_presigned_request_reaches_the_service_it_is_signed_for() {
    let client = shared().await;
    let query = "Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Credential=AKIDX%2F20261116%2Feu-west-1%2Fsts%2Faws4_request";
    let answer =
        client.send(client.request("GET", &format!("/?{query}&X-Amz-Signature=0"), "")).await.unwrap();
    assert_eq!(answer.xml("Account"), "123456789012");
}
