//! The Kubernetes APIs of the clusters in the local AWS, as kubectl sees them.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign},
    sign::v4,
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::harness::{SystemHarness, send_http, wait_until};

const REGION: &str = "eu-central-1";

/// A caller of the local AWS.
struct AccessKey {
    id: String,
    secret: String,
    session: Option<String>,
}

/// An account in which clusters can be made.
struct LocalAccount {
    capt: SystemHarness,
    aws: String,
    role: String,
    subnets: Vec<String>,
}

impl LocalAccount {
    fn new() -> Self {
        let capt = SystemHarness::new();
        capt.run(&["aws", "start"]).expect_success();
        let timing = r#"{"cluster_create_ms": 0, "cluster_delete_ms": 0}"#;
        capt.admin_request("POST", "/_capt/timing", timing);
        let mut account = Self { aws: capt.aws_address(), capt, role: String::new(), subnets: Vec::new() };
        let vpc = account.aws_query("ec2", "Action=CreateVpc&CidrBlock=10.0.0.0/16&Version=2016-11-15");
        let vpc = xml_element(&vpc, "vpcId");
        for (n, zone) in ["a", "b"].iter().enumerate() {
            let form = format!(
                "Action=CreateSubnet&VpcId={vpc}&CidrBlock=10.0.{n}.0/24&AvailabilityZone={REGION}{zone}&Version=2016-11-15"
            );
            account.subnets.push(xml_element(&account.aws_query("ec2", &form), "subnetId"));
        }
        account.role = account.create_role("control-plane", r#"{"Service":"eks.amazonaws.com"}"#);
        account
    }

    fn aws_query(&self, service: &str, form: &str) -> String {
        let headers =
            format!("{}Content-Type: application/x-www-form-urlencoded\r\n", authorization(service));
        send_http(&self.aws, "POST /", &headers, form)
    }

    fn create_role(&self, name: &str, principal: &str) -> String {
        let policy = format!(
            r#"{{"Statement":[{{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{principal}}}]}}"#
        );
        let form =
            format!("Action=CreateRole&RoleName={name}&AssumeRolePolicyDocument={policy}&Version=2010-05-08");
        xml_element(&self.aws_query("iam", &form), "Arn")
    }

    /// Takes on a role, and answers with its ARN and the key of the session.
    fn assume_role(&self, name: &str) -> (String, AccessKey) {
        let arn = self.create_role(name, r#"{"AWS":"*"}"#);
        let form = format!("Action=AssumeRole&RoleArn={arn}&RoleSessionName=me&Version=2011-06-15");
        let answer = self.aws_query("sts", &form);
        let key = AccessKey {
            id: xml_element(&answer, "AccessKeyId"),
            secret: xml_element(&answer, "SecretAccessKey"),
            session: Some(xml_element(&answer, "SessionToken")),
        };
        (arn, key)
    }

    fn eks(&self, request: &str, body: &Value) -> Value {
        let headers = authorization("eks");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        serde_json::from_str(&send_http(&self.aws, request, &headers, &body)).unwrap()
    }

    /// Makes a cluster and waits for it: what `DescribeCluster` says then.
    fn create_cluster(&self, name: &str) -> Value {
        let wanted = json!({
            "name": name,
            "roleArn": self.role,
            "resourcesVpcConfig": { "subnetIds": self.subnets },
            "accessConfig": { "authenticationMode": "API" },
        });
        self.eks("POST /clusters", &wanted);
        let path = format!("GET /clusters/{name}");
        let mut cluster = Value::Null;
        wait_until("the cluster is made", || {
            cluster = self.eks(&path, &Value::Null)["cluster"].clone();
            cluster["status"] != "CREATING"
        });
        assert_eq!(cluster["status"], "ACTIVE", "{cluster}");
        cluster
    }

    fn write_kubeconfig(&self, cluster: &Value, token: &str) -> PathBuf {
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{ "name": "it", "cluster": {
                "server": cluster["endpoint"],
                "certificate-authority-data": cluster["certificateAuthority"]["data"],
            } }],
            "users": [{ "name": "it", "user": { "token": token } }],
            "contexts": [{ "name": "it", "context": { "cluster": "it", "user": "it" } }],
        });
        self.capt.write_file("kubeconfig", &text.to_string())
    }

    /// Whether the cluster of a kubeconfig answers. Its address may be reused later.
    fn is_api_serving(&self, kubeconfig: &Path) -> bool {
        self.capt.kubectl(kubeconfig, &["get", "namespaces"]).code == Some(0)
    }

    #[track_caller]
    fn assert_token_refused(&self, cluster: &Value, token: &str, why: &str) {
        let said = self.capt.kubectl(&self.write_kubeconfig(cluster, token), &["get", "namespaces"]);
        assert_eq!(said.code, Some(1), "{why}: {said:?}");
        assert!(said.stderr.contains("You must be logged in to the server"), "{why}: {}", said.stderr);
    }
}

fn authorization(service: &str) -> String {
    let scope = format!("test/20260101/{REGION}/{service}/aws4_request");
    format!("Authorization: AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0\r\n")
}

/// The text of the first XML element of that name.
fn xml_element(xml: &str, name: &str) -> String {
    let (_, rest) = xml.split_once(&format!("<{name}>")).unwrap_or_else(|| panic!("no <{name}> in {xml}"));
    rest.split('<').next().unwrap().to_owned()
}

impl AccessKey {
    fn test() -> Self {
        Self { id: "test".to_owned(), secret: "test".to_owned(), session: None }
    }

    /// A token as `aws eks get-token` makes it, signed so long ago.
    fn eks_token(&self, cluster: &str, age: Duration) -> String {
        let credentials = Credentials::new(&*self.id, &*self.secret, self.session.clone(), None, "test");
        let identity = credentials.into();
        let mut settings = SigningSettings::default();
        settings.signature_location = SignatureLocation::QueryParams;
        settings.expires_in = Some(Duration::from_mins(1));
        let at = SystemTime::from(terraform_driver::clock::now()) - age;
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(REGION)
            .name("sts")
            .time(at)
            .settings(settings)
            .build()
            .unwrap();
        let url = format!("https://sts.{REGION}.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15");
        let headers = [("x-k8s-aws-id", cluster)].into_iter();
        let request = SignableRequest::new("GET", &url, headers, SignableBody::Bytes(&[])).unwrap();
        let (instructions, _) = sign(request, &params.into()).unwrap().into_parts();
        let mut signed = http::Request::get(&url).body(()).unwrap();
        instructions.apply_to_request_http1x(&mut signed);
        format!("k8s-aws-v1.{}", BASE64_URL_SAFE_NO_PAD.encode(signed.uri().to_string()))
    }
}

#[test]
fn kubectl_works_on_a_cluster_of_the_local_aws_with_an_eks_token() {
    let account = LocalAccount::new();
    let cluster = account.create_cluster("shop");
    let endpoint = cluster["endpoint"].as_str().unwrap().to_owned();
    assert!(endpoint.starts_with("https://127.0.0.1:"), "{endpoint}");
    let token = |age| AccessKey::test().eks_token("shop", age);

    let kubeconfig = account.write_kubeconfig(&cluster, &token(Duration::ZERO));
    let said = account.capt.kubectl(&kubeconfig, &["get", "namespaces", "-o", "name"]).expect_success();
    assert!(said.stdout.contains("namespace/kube-system"), "{}", said.stdout);
    let object =
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}, "data": {"a": "b"}}"#;
    let file = account.capt.write_file("configmap.json", object).display().to_string();
    account.capt.kubectl(&kubeconfig, &["apply", "-f", &file]).expect_success();
    let read = ["get", "configmap", "shop", "-o", "jsonpath={.data.a}"];
    assert_eq!(account.capt.kubectl(&kubeconfig, &read).expect_success().stdout, "b");

    let other = account.create_cluster("other");
    assert_ne!(other["endpoint"], cluster["endpoint"]);
    let elsewhere = account.write_kubeconfig(&other, &AccessKey::test().eks_token("other", Duration::ZERO));
    assert_eq!(account.capt.kubectl(&elsewhere, &read).code, Some(1), "clusters share nothing");

    account.assert_token_refused(
        &cluster,
        &AccessKey::test().eks_token("other", Duration::ZERO),
        "another cluster's token",
    );
    account.assert_token_refused(&cluster, &token(Duration::from_mins(16)), "an expired token");
    account.assert_token_refused(&cluster, "k8s-aws-v1.Z2FyYmFnZQ", "garbage");
    account.assert_token_refused(&cluster, "garbage", "no token at all");
    let stranger = AccessKey { id: "AKIASTRANGER".to_owned(), secret: "test".to_owned(), session: None };
    account.assert_token_refused(
        &cluster,
        &stranger.eks_token("shop", Duration::ZERO),
        "a key that nobody gave out",
    );

    account.eks("DELETE /clusters/shop", &Value::Null);
    let gone = account.write_kubeconfig(&cluster, &token(Duration::ZERO));
    wait_until("the endpoint is gone", || !account.is_api_serving(&gone));
    let elsewhere = account.write_kubeconfig(&other, &AccessKey::test().eks_token("other", Duration::ZERO));
    account.capt.kubectl(&elsewhere, &["get", "namespaces"]).expect_success();

    account.capt.run(&["aws", "stop"]).expect_success();
    assert!(!account.is_api_serving(&elsewhere), "clusters end with the local AWS");
}

#[test]
fn access_entries_say_who_is_let_into_a_cluster_and_as_whom() {
    let account = LocalAccount::new();
    let cluster = account.create_cluster("shop");
    let (arn, key) = account.assume_role("developer");
    let token = key.eks_token("shop", Duration::ZERO);
    account.assert_token_refused(&cluster, &token, "no entry names the role");

    let entry = json!({ "principalArn": arn, "kubernetesGroups": ["developers"] });
    account.eks("POST /clusters/shop/access-entries", &entry);
    let kubeconfig = account.write_kubeconfig(&cluster, &token);
    let forbidden = account.capt.kubectl(&kubeconfig, &["get", "secrets"]);
    assert_eq!(forbidden.code, Some(1), "{forbidden:?}");
    assert!(forbidden.stderr.contains("assumed-role/developer/me\" cannot list"), "{}", forbidden.stderr);

    let entry = format!("/clusters/shop/access-entries/{}", arn.replace(':', "%3A").replace('/', "%2F"));
    let policy = json!({
        "policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
        "accessScope": { "type": "cluster" },
    });
    account.eks(&format!("POST {entry}/access-policies"), &policy);
    account.capt.kubectl(&kubeconfig, &["get", "secrets", "-A"]).expect_success();

    account.eks(&format!("DELETE {entry}"), &Value::Null);
    account.assert_token_refused(&cluster, &token, "the entry is gone");
}
