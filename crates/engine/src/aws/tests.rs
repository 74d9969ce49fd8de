//! Tests against the local AWS (with moto) and an embedded API server behind the cluster endpoint.

mod harness;

use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use kube::api::{Api, ListParams};
use serde_json::json;
use terraform_driver::clock;

use self::harness::{REGION, lock_harness};
use super::*;

const ACCOUNT: &str = "123456789012";

fn role(name: &str) -> String {
    format!("arn:aws:iam::{ACCOUNT}:role/{name}")
}

fn principal(source: PrincipalSource, roles: &[&str]) -> Principal {
    let hops = roles.iter().map(|name| RoleHop { role_arn: role(name), ..RoleHop::default() }).collect();
    Principal { source, role_chain: hops, session_name: session_name("shop", "default") }
}

async fn arn(sdk: &SdkConfig) -> String {
    get_caller_identity(sdk).await.unwrap().arn
}

#[tokio::test(flavor = "multi_thread")]
async fn eks_is_asked_about_what_is_there_and_what_is_not() {
    let ground = lock_harness().await;
    let eks = EksClient::new(&ground.cloud().sdk_config(Some(REGION)).await);
    assert_eq!(eks.describe_cluster("asked").await.unwrap(), None);
    assert_eq!(eks.describe_fargate_profile("asked", "one").await.unwrap(), None);
    assert!(eks.list_fargate_profiles("asked").await.unwrap().is_empty());
    assert!(eks.describe_addons("asked").await.unwrap().is_empty());
    assert_eq!(eks.describe_access_entry("asked", &role("me")).await.unwrap(), None);

    ground.cluster("asked", &Principal::from_default_chain()).await;
    let cluster = eks.describe_cluster("asked").await.unwrap().unwrap();
    assert_eq!((cluster.status.as_str(), cluster.authentication_mode.as_deref()), ("ACTIVE", Some("API")));
    assert!(cluster.endpoint.is_some() && cluster.certificate_authority.is_some(), "{cluster:?}");
    assert!(cluster.arn.ends_with(":cluster/asked") && cluster.version.is_some(), "{cluster:?}");

    // A page holds a hundred.
    let sdk = ground.cloud().sdk_config(Some(REGION)).await;
    for n in 0..101 {
        ground.profile(&sdk, "asked", &format!("p{n}")).await;
    }
    assert_eq!(eks.list_fargate_profiles("asked").await.unwrap().len(), 101);
    assert_eq!(ground.calls("ListFargateProfiles").await.len(), 3, "one before, and two pages");
    let issues = json!([{ "code": "AccessDenied", "message": "no", "resourceIds": ["pods"] }]);
    let order = json!({ "cluster": "asked", "profile": "p1", "status": "DELETE_FAILED", "issues": issues });
    ground.admin("eks/profile-state", &order).await;
    let profile = eks.describe_fargate_profile("asked", "p1").await.unwrap().unwrap();
    assert_eq!((profile.status.as_str(), profile.issues[0].code.as_str()), ("DELETE_FAILED", "AccessDenied"));
    assert_eq!(profile.issues[0].resource_ids, ["pods"]);

    let client = aws_sdk_eks::Client::new(&sdk);
    client.create_addon().cluster_name("asked").addon_name("coredns").send().await.unwrap();
    let addons = eks.describe_addons("asked").await.unwrap();
    assert_eq!((addons.len(), addons[0].name.as_str()), (1, "coredns"));
    assert!(addons[0].version.is_some() && !addons[0].status.is_empty(), "{addons:?}");
    let entry = client.create_access_entry().cluster_name("asked").principal_arn(ground.role());
    entry.send().await.unwrap();
    assert_eq!(eks.describe_access_entry("asked", ground.role()).await.unwrap().unwrap().kind, "STANDARD");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_tells_whether_it_passes() {
    let ground = lock_harness().await;
    let sdk = ground.cloud().sdk_config(Some(REGION)).await;
    let eks = EksClient::new(&sdk);
    for (fault, transient) in [
        (json!({ "throttle": true }), true),
        (json!({ "error": { "code": "ServerException", "message": "a bad day", "status": 500 } }), true),
        (json!({ "drop_after_work": true }), true),
        (json!({ "error": { "code": "AccessDeniedException", "message": "no", "status": 403 } }), false),
    ] {
        let mut order = json!({ "operation": "DescribeCluster", "times": 0 });
        order.as_object_mut().unwrap().extend(fault.as_object().unwrap().clone());
        ground.admin("faults", &order).await;
        let error = eks.describe_cluster("shop").await.unwrap_err();
        assert_eq!(error.is_transient(), transient, "{fault}: {error}");
        assert!(error.to_string().starts_with("cannot query EKS for the cluster shop: "), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
        ground.forget_faults().await;
    }

    // A short timeout instead of the default. The delayed response never arrives during the test.
    let deadlines = TimeoutConfig::builder().operation_timeout(Duration::from_millis(300)).build();
    let eks = EksClient::new(&sdk.to_builder().timeout_config(deadlines).build());
    ground
        .admin("faults", &json!({ "operation": "DescribeCluster", "times": 0, "delay_ms": 3_600_000 }))
        .await;
    let error = eks.describe_cluster("shop").await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    let deadlines = sdk.timeout_config().unwrap();
    assert_eq!(deadlines.operation_attempt_timeout(), Some(Duration::from_secs(10)));
    assert_eq!(deadlines.operation_timeout(), Some(Duration::from_secs(30)));
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_are_assumed_one_with_the_other_and_their_sessions_are_kept() {
    let ground = lock_harness().await;
    let sessions = SdkConfigCache::new(ground.cloud());
    assert!(
        arn(&sessions.sdk_config(&Principal::from_default_chain(), Some(REGION)).await)
            .await
            .contains(ACCOUNT)
    );

    let chain = principal(PrincipalSource::Default, &["first", "second"]);
    for _ in 0..3 {
        let sdk = sessions.sdk_config(&chain, Some(REGION)).await;
        let expected = format!("arn:aws:sts::{ACCOUNT}:assumed-role/second/capt-shop@default");
        assert_eq!(arn(&sdk).await, expected);
    }
    assert_eq!(ground.calls("AssumeRole").await.len(), 2, "once for each role, however often it is used");
    // The second with the credentials of the first.
    let keys = ground.calls("AssumeRole").await;
    assert_eq!(keys[0], LOCAL_ACCESS_KEY);
    assert_ne!(keys[1], LOCAL_ACCESS_KEY);

    let source = static_source("AKIAIOSFODNN7EXAMPLE");
    arn(&ground.cloud().sdk_config_as(&principal(source, &[]), Some(REGION)).await).await;
    assert_eq!(ground.calls("GetCallerIdentity").await.last().unwrap(), "AKIAIOSFODNN7EXAMPLE");

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "header.payload.signature\n").unwrap();
    let web = PrincipalSource::WebIdentity { role_arn: role("web"), token_file: file.path().to_owned() };
    let sdk = ground.cloud().sdk_config_as(&principal(web, &["second"]), Some(REGION)).await;
    assert_eq!(arn(&sdk).await, format!("arn:aws:sts::{ACCOUNT}:assumed-role/second/capt-shop@default"));
    assert_eq!(ground.calls("AssumeRoleWithWebIdentity").await.len(), 1);
}

fn static_source(id: &str) -> PrincipalSource {
    parse_keys(id, "hunter2", None).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_cannot_be_assumed_is_named_and_told_from_a_slow_sts() {
    let ground = lock_harness().await;
    let chain = principal(PrincipalSource::Default, &["first", "second"]);
    let denied = json!({ "code": "AccessDenied", "message": "User is not authorized.", "status": 403 });
    ground.admin("faults", &json!({ "operation": "AssumeRole", "times": 0, "error": denied })).await;
    let sdk = ground.cloud().sdk_config_as(&chain, Some(REGION)).await;
    let error = EksClient::new(&sdk).describe_cluster("shop").await.unwrap_err();
    let first = role("first");
    let said = format!("cannot assume the role {first}: User is not authorized (AccessDenied)");
    assert_eq!(error.to_string(), format!("cannot query EKS for the cluster shop: {said}"));
    assert!(!error.is_transient());
    let error = create_eks_token(&sdk, REGION, "shop", clock::now()).await.unwrap_err();
    assert!(error.to_string().ends_with(&said) && !error.is_transient(), "{error}");
    let error = get_caller_identity(&sdk).await.unwrap_err();
    assert!(error.to_string().contains(&said) && !error.is_transient(), "{error}");

    ground.forget_faults().await;
    ground.admin("faults", &json!({ "operation": "AssumeRole", "times": 0, "throttle": true })).await;
    assert!(EksClient::new(&sdk).describe_cluster("shop").await.unwrap_err().is_transient());
    assert!(get_caller_identity(&sdk).await.unwrap_err().is_transient());
    assert!(create_eks_token(&sdk, REGION, "shop", clock::now()).await.unwrap_err().is_transient());

    ground.forget_faults().await;
    assert_eq!(EksClient::new(&sdk).describe_cluster("shop").await.unwrap(), None, "it heals by itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_the_api_of_its_cluster_and_of_no_other() {
    let ground = lock_harness().await;
    let me = principal(PrincipalSource::Default, &["deployer"]);
    let sdk = ground.cloud().sdk_config_as(&me, Some(REGION)).await;
    ground.cluster("open", &me).await;
    let cluster = EksClient::new(&sdk).describe_cluster("open").await.unwrap().unwrap();

    let token = create_eks_token(&sdk, REGION, "open", clock::now()).await.unwrap();
    let client = harness::client(&cluster, &token).await;
    let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(client);
    let names: Vec<_> = namespaces.list(&ListParams::default()).await.unwrap().items;
    assert!(names.iter().any(|it| it.metadata.name.as_deref() == Some("kube-system")), "{names:?}");

    let stranger =
        ground.cloud().sdk_config_as(&principal(PrincipalSource::Default, &["stranger"]), Some(REGION)).await;
    for token in [
        create_eks_token(&sdk, REGION, "other", clock::now()).await.unwrap(),
        create_eks_token(&stranger, REGION, "open", clock::now()).await.unwrap(),
    ] {
        let client = harness::client(&cluster, &token).await;
        let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(client);
        let error = namespaces.list(&ListParams::default()).await.unwrap_err();
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 401), "{error}");
    }
}
