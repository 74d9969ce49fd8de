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

use super::capt::{Capt, exchange, until};

const REGION: &str = "eu-central-1";

/// A caller of the local AWS.
struct Key {
    id: String,
    secret: String,
    session: Option<String>,
}

/// An account in which clusters can be made.
struct Account {
    capt: Capt,
    aws: String,
    role: String,
    subnets: Vec<String>,
}

impl Account {
    fn new() -> Self {
        let capt = Capt::new();
        capt.run(&["aws", "start"]).ok();
        let timing = r#"{"cluster_create_ms": 0, "cluster_delete_ms": 0}"#;
        capt.admin("POST", "/_capt/timing", timing);
        let mut account = Self { aws: capt.aws(), capt, role: String::new(), subnets: Vec::new() };
        let vpc = account.query("ec2", "Action=CreateVpc&CidrBlock=10.0.0.0/16&Version=2016-11-15");
        let vpc = element(&vpc, "vpcId");
        for (n, zone) in ["a", "b"].iter().enumerate() {
            let form = format!(
                "Action=CreateSubnet&VpcId={vpc}&CidrBlock=10.0.{n}.0/24&AvailabilityZone={REGION}{zone}&Version=2016-11-15"
            );
            account.subnets.push(element(&account.query("ec2", &form), "subnetId"));
        }
        account.role = account.role("control-plane", r#"{"Service":"eks.amazonaws.com"}"#);
        account
    }

    fn query(&self, service: &str, form: &str) -> String {
        let headers =
            format!("{}Content-Type: application/x-www-form-urlencoded\r\n", authorization(service));
        exchange(&self.aws, "POST /", &headers, form)
    }

    fn role(&self, name: &str, principal: &str) -> String {
        let policy = format!(
            r#"{{"Statement":[{{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{principal}}}]}}"#
        );
        let form =
            format!("Action=CreateRole&RoleName={name}&AssumeRolePolicyDocument={policy}&Version=2010-05-08");
        element(&self.query("iam", &form), "Arn")
    }

    /// Takes on a role, and answers with its ARN and the key of the session.
    fn assume(&self, name: &str) -> (String, Key) {
        let arn = self.role(name, r#"{"AWS":"*"}"#);
        let form = format!("Action=AssumeRole&RoleArn={arn}&RoleSessionName=me&Version=2011-06-15");
        let answer = self.query("sts", &form);
        let key = Key {
            id: element(&answer, "AccessKeyId"),
            secret: element(&answer, "SecretAccessKey"),
            session: Some(element(&answer, "SessionToken")),
        };
        (arn, key)
    }

    fn eks(&self, request: &str, body: &Value) -> Value {
        let headers = authorization("eks");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        serde_json::from_str(&exchange(&self.aws, request, &headers, &body)).unwrap()
    }

    /// Makes a cluster and waits for it: what `DescribeCluster` says then.
    fn cluster(&self, name: &str) -> Value {
        let wanted = json!({
            "name": name,
            "roleArn": self.role,
            "resourcesVpcConfig": { "subnetIds": self.subnets },
            "accessConfig": { "authenticationMode": "API" },
        });
        self.eks("POST /clusters", &wanted);
        let path = format!("GET /clusters/{name}");
        let mut cluster = Value::Null;
        until("the cluster is made", || {
            cluster = self.eks(&path, &Value::Null)["cluster"].clone();
            cluster["status"] != "CREATING"
        });
        assert_eq!(cluster["status"], "ACTIVE", "{cluster}");
        cluster
    }

    fn kubeconfig(&self, cluster: &Value, token: &str) -> PathBuf {
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{ "name": "it", "cluster": {
                "server": cluster["endpoint"],
                "certificate-authority-data": cluster["certificateAuthority"]["data"],
            } }],
            "users": [{ "name": "it", "user": { "token": token } }],
            "contexts": [{ "name": "it", "context": { "cluster": "it", "user": "it" } }],
        });
        self.capt.write("kubeconfig", &text.to_string())
    }

    /// Whether the cluster of a kubeconfig does as it is told. Somebody else may listen at its address later.
    fn answers(&self, kubeconfig: &Path) -> bool {
        self.capt.kubectl(kubeconfig, &["get", "namespaces"]).code == Some(0)
    }

    #[track_caller]
    fn refused(&self, cluster: &Value, token: &str, why: &str) {
        let said = self.capt.kubectl(&self.kubeconfig(cluster, token), &["get", "namespaces"]);
        assert_eq!(said.code, Some(1), "{why}: {said:?}");
        assert!(said.stderr.contains("You must be logged in to the server"), "{why}: {}", said.stderr);
    }
}

fn authorization(service: &str) -> String {
    let scope = format!("test/20260101/{REGION}/{service}/aws4_request");
    format!("Authorization: AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0\r\n")
}

/// The text of the first XML element of that name.
fn element(xml: &str, name: &str) -> String {
    let (_, rest) = xml.split_once(&format!("<{name}>")).unwrap_or_else(|| panic!("no <{name}> in {xml}"));
    rest.split('<').next().unwrap().to_owned()
}

impl Key {
    fn test() -> Self {
        Self { id: "test".to_owned(), secret: "test".to_owned(), session: None }
    }

    /// A token as `aws eks get-token` makes it, signed so long ago.
    fn token(&self, cluster: &str, age: Duration) -> String {
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
    let account = Account::new();
    let cluster = account.cluster("shop");
    let endpoint = cluster["endpoint"].as_str().unwrap().to_owned();
    assert!(endpoint.starts_with("https://127.0.0.1:"), "{endpoint}");
    let token = |age| Key::test().token("shop", age);

    let kubeconfig = account.kubeconfig(&cluster, &token(Duration::ZERO));
    let said = account.capt.kubectl(&kubeconfig, &["get", "namespaces", "-o", "name"]).ok();
    assert!(said.stdout.contains("namespace/kube-system"), "{}", said.stdout);
    let object =
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}, "data": {"a": "b"}}"#;
    let file = account.capt.write("configmap.json", object).display().to_string();
    account.capt.kubectl(&kubeconfig, &["apply", "-f", &file]).ok();
    let read = ["get", "configmap", "shop", "-o", "jsonpath={.data.a}"];
    assert_eq!(account.capt.kubectl(&kubeconfig, &read).ok().stdout, "b");

    let other = account.cluster("other");
    assert_ne!(other["endpoint"], cluster["endpoint"]);
    let elsewhere = account.kubeconfig(&other, &Key::test().token("other", Duration::ZERO));
    assert_eq!(account.capt.kubectl(&elsewhere, &read).code, Some(1), "clusters share nothing");

    account.refused(&cluster, &Key::test().token("other", Duration::ZERO), "another cluster's token");
    account.refused(&cluster, &token(Duration::from_mins(16)), "an expired token");
    account.refused(&cluster, "k8s-aws-v1.Z2FyYmFnZQ", "garbage");
    account.refused(&cluster, "garbage", "no token at all");
    let stranger = Key { id: "AKIASTRANGER".to_owned(), secret: "test".to_owned(), session: None };
    account.refused(&cluster, &stranger.token("shop", Duration::ZERO), "a key that nobody gave out");

    account.eks("DELETE /clusters/shop", &Value::Null);
    let gone = account.kubeconfig(&cluster, &token(Duration::ZERO));
    until("the endpoint is gone", || !account.answers(&gone));
    let elsewhere = account.kubeconfig(&other, &Key::test().token("other", Duration::ZERO));
    account.capt.kubectl(&elsewhere, &["get", "namespaces"]).ok();

    account.capt.run(&["aws", "stop"]).ok();
    assert!(!account.answers(&elsewhere), "clusters end with the local AWS");
}

#[test]
fn access_entries_say_who_is_let_into_a_cluster_and_as_whom() {
    let account = Account::new();
    let cluster = account.cluster("shop");
    let (arn, key) = account.assume("developer");
    let token = key.token("shop", Duration::ZERO);
    account.refused(&cluster, &token, "no entry names the role");

    let entry = json!({ "principalArn": arn, "kubernetesGroups": ["developers"] });
    account.eks("POST /clusters/shop/access-entries", &entry);
    let kubeconfig = account.kubeconfig(&cluster, &token);
    let forbidden = account.capt.kubectl(&kubeconfig, &["get", "secrets"]);
    assert_eq!(forbidden.code, Some(1), "{forbidden:?}");
    assert!(forbidden.stderr.contains("assumed-role/developer/me\" cannot list"), "{}", forbidden.stderr);

    let entry = format!("/clusters/shop/access-entries/{}", arn.replace(':', "%3A").replace('/', "%2F"));
    let policy = json!({
        "policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
        "accessScope": { "type": "cluster" },
    });
    account.eks(&format!("POST {entry}/access-policies"), &policy);
    account.capt.kubectl(&kubeconfig, &["get", "secrets", "-A"]).ok();

    account.eks(&format!("DELETE {entry}"), &Value::Null);
    account.refused(&cluster, &token, "the entry is gone");
}
