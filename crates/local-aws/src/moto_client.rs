//! Requests that this crate itself sends to moto, including the side effects of EKS in other services of the account.

use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::{Method, Request, header};
use roxmltree::{Document, Node};
use serde_json::Value;

use crate::{
    eks::context::{Prerequisites, ResolvedPrerequisites, RoleFacts, SubnetFacts},
    moto_cache::MotoCall,
    moto_proxy::MotoProxy,
    protocol::full_body,
    query_string::percent_encode,
    region::Region,
};

const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// A request to moto failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MotoError {
    #[error("request {operation} to moto timed out after one minute")]
    Timeout { operation: String },
    #[error("request {operation} to moto failed")]
    Transport {
        operation: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("moto rejected {operation}: {code}")]
    Rejected { operation: String, code: String },
    #[error("cannot parse moto's response to {operation}")]
    InvalidResponse { operation: String },
}

/// Credentials of the caller: moto derives IAM identities from the access key and the token.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    pub(crate) access_key: String,
    pub(crate) token: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct MotoClient {
    upstream: MotoProxy,
}

type FormParams<'a> = &'a [(&'a str, &'a str)];

impl MotoClient {
    pub(crate) fn new(upstream: MotoProxy) -> Self {
        Self { upstream }
    }

    /// Calls a query-protocol API; the response is XML.
    pub(crate) async fn call_query(
        &self,
        service: &str,
        region: &str,
        action: &str,
        params: FormParams<'_>,
    ) -> Result<String, MotoError> {
        self.call_query_as(
            &Caller { access_key: "local-aws".to_owned(), token: None },
            (service, region),
            action,
            params,
        )
        .await
    }

    async fn call_query_as(
        &self,
        caller: &Caller,
        (service, region): (&str, &str),
        action: &str,
        params: FormParams<'_>,
    ) -> Result<String, MotoError> {
        let version = match service {
            "ec2" => "2016-11-15",
            "iam" => "2010-05-08",
            _ => "2011-06-15",
        };
        let mut form = format!("Action={action}&Version={version}");
        for (key, value) in params {
            form.extend(["&", &percent_encode(key), "=", &percent_encode(value)]);
        }
        let request = request_with_scope(caller, service, region)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded; charset=utf-8");
        let (status, text) = self.send_request(action, request, form).await?;
        if status < 300 {
            return Ok(text);
        }
        let code = Document::parse(&text).ok().and_then(|xml| first_text(xml.root(), "Code"));
        Err(MotoError::Rejected {
            operation: action.to_owned(),
            code: code.unwrap_or_else(|| status.to_string()),
        })
    }

    /// Calls a JSON-protocol API; `target` is the value of `X-Amz-Target`.
    pub(crate) async fn call_json(
        &self,
        service: &str,
        region: &str,
        target: &str,
        body: &Value,
    ) -> Result<Value, MotoError> {
        let caller = Caller { access_key: "local-aws".to_owned(), token: None };
        let request = request_with_scope(&caller, service, region)
            .header(header::CONTENT_TYPE, "application/x-amz-json-1.1")
            .header("x-amz-target", target);
        let (status, text) = self.send_request(target, request, body.to_string()).await?;
        if status >= 300 {
            return Err(MotoError::Rejected { operation: target.to_owned(), code: status.to_string() });
        }
        serde_json::from_str(&text).map_err(|_| MotoError::InvalidResponse { operation: target.to_owned() })
    }

    async fn send_request(
        &self,
        operation: &str,
        request: hyper::http::request::Builder,
        body: String,
    ) -> Result<(u16, String), MotoError> {
        let name = operation.rsplit('.').next().unwrap_or(operation);
        let failed = |source| MotoError::Transport { operation: operation.to_owned(), source };
        let request = request.body(full_body(body)).map_err(|error| failed(error.into()))?;
        let work = async {
            // Requests of this crate are few and are not cached.
            let question = MotoCall { operation: name, ..MotoCall::default() };
            let response =
                self.upstream.forward(&question, request).await.map_err(|error| failed(error.into()))?;
            let status = response.status().as_u16();
            let bytes = Limited::new(response.into_body(), MAX_RESPONSE_BYTES)
                .collect()
                .await
                .map_err(failed)?
                .to_bytes();
            Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
        };
        let deadline = MotoError::Timeout { operation: operation.to_owned() };
        tokio::time::timeout(REQUEST_TIMEOUT, work).await.unwrap_or(Err(deadline))
    }

    /// Looks up everything that an EKS operation depends on.
    pub(crate) async fn resolve_prerequisites(
        &self,
        place: &Region,
        needs: &Prerequisites,
        caller: &Caller,
    ) -> Result<ResolvedPrerequisites, MotoError> {
        let mut facts = ResolvedPrerequisites::default();
        if !needs.subnets.is_empty() {
            self.resolve_subnets(place, needs, &mut facts).await?;
        }
        for principal in &needs.principals {
            self.resolve_principal(place, principal, &mut facts).await?;
        }
        if needs.caller {
            facts.caller = self.resolve_caller(place, caller).await?;
        }
        Ok(facts)
    }

    async fn resolve_subnets(
        &self,
        place: &Region,
        needs: &Prerequisites,
        facts: &mut ResolvedPrerequisites,
    ) -> Result<(), MotoError> {
        // A filter, because lookup by id fails as a whole if one id is missing.
        let keys: Vec<String> = (1..=needs.subnets.len()).map(|n| format!("Filter.1.Value.{n}")).collect();
        let mut params = vec![("Filter.1.Name", "subnet-id")];
        params.extend(keys.iter().map(String::as_str).zip(needs.subnets.iter().map(String::as_str)));
        let answer = self.call_query("ec2", &place.name, "DescribeSubnets", &params).await?;
        let tables = self.call_query("ec2", &place.name, "DescribeRouteTables", &[]).await?;
        let unreadable = |operation: &str| MotoError::InvalidResponse { operation: operation.to_owned() };
        let answer = Document::parse(&answer).map_err(|_| unreadable("DescribeSubnets"))?;
        let tables = Document::parse(&tables).map_err(|_| unreadable("DescribeRouteTables"))?;
        for item in list_items(answer.root(), "subnetSet") {
            let id = child_text(item, "subnetId");
            let vpc_id = child_text(item, "vpcId");
            let subnet = SubnetFacts {
                public: is_public(&tables, &id, &vpc_id),
                vpc_id,
                zone: child_text(item, "availabilityZone"),
                zone_id: child_text(item, "availabilityZoneId"),
            };
            facts.subnets.insert(id, subnet);
        }
        Ok(())
    }

    async fn resolve_principal(
        &self,
        place: &Region,
        arn: &str,
        facts: &mut ResolvedPrerequisites,
    ) -> Result<(), MotoError> {
        let Some((_, resource)) = arn.rsplit_once(':') else { return Ok(()) };
        let name = resource.rsplit('/').next().unwrap_or_default();
        let (action, key) = match resource.split('/').next() {
            Some("role") => ("GetRole", "RoleName"),
            Some("user") => ("GetUser", "UserName"),
            _ => return Ok(()),
        };
        let answer = match self.call_query("iam", place.iam_region(), action, &[(key, name)]).await {
            Ok(answer) => answer,
            Err(MotoError::Rejected { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let xml = Document::parse(&answer)
            .map_err(|_| MotoError::InvalidResponse { operation: action.to_owned() })?;
        // A role of the same name under another path is a different principal.
        if first_text(xml.root(), "Arn").as_deref() != Some(arn) {
            return Ok(());
        }
        if action == "GetUser" {
            facts.users.insert(arn.to_owned());
        } else {
            let policy = first_text(xml.root(), "AssumeRolePolicyDocument").unwrap_or_default();
            facts.roles.insert(arn.to_owned(), RoleFacts { trusted_services: trusted_services(&policy) });
        }
        Ok(())
    }

    /// The IAM principal of the caller: the role, not the role session.
    async fn resolve_caller(&self, place: &Region, caller: &Caller) -> Result<String, MotoError> {
        let answer = self.call_query_as(caller, ("sts", &place.name), "GetCallerIdentity", &[]).await?;
        let xml = Document::parse(&answer)
            .map_err(|_| MotoError::InvalidResponse { operation: "GetCallerIdentity".to_owned() })?;
        let arn = first_text(xml.root(), "Arn").unwrap_or_default().replacen(":sts:", ":iam:", 1);
        Ok(match arn.split_once(":assumed-role/") {
            Some((head, session)) => format!("{head}:role/{}", session.split('/').next().unwrap_or_default()),
            None => arn,
        })
    }

    /// Creates the security group that EKS creates for a cluster; returns its id.
    pub(crate) async fn create_cluster_security_group(
        &self,
        place: &Region,
        cluster: &str,
        vpc_id: &str,
    ) -> Result<String, MotoError> {
        let name = format!("eks-cluster-sg-{cluster}-{}", numeric_suffix());
        let description = "EKS created security group applied to ENI that is attached to EKS Control Plane master nodes, as well as any managed workloads.";
        let owned = format!("kubernetes.io/cluster/{cluster}");
        let params = [
            ("GroupName", name.as_str()),
            ("GroupDescription", description),
            ("VpcId", vpc_id),
            ("TagSpecification.1.ResourceType", "security-group"),
            ("TagSpecification.1.Tag.1.Key", "Name"),
            ("TagSpecification.1.Tag.1.Value", name.as_str()),
            ("TagSpecification.1.Tag.2.Key", owned.as_str()),
            ("TagSpecification.1.Tag.2.Value", "owned"),
        ];
        let answer = self.call_query("ec2", &place.name, "CreateSecurityGroup", &params).await?;
        let xml = Document::parse(&answer)
            .map_err(|_| MotoError::InvalidResponse { operation: "CreateSecurityGroup".to_owned() })?;
        let id = first_text(xml.root(), "groupId");
        id.ok_or_else(|| MotoError::InvalidResponse { operation: "CreateSecurityGroup".to_owned() })
    }

    pub(crate) async fn delete_security_group(&self, place: &Region, id: &str) -> Result<(), MotoError> {
        self.call_query("ec2", &place.name, "DeleteSecurityGroup", &[("GroupId", id)]).await.map(drop)
    }
}

fn numeric_suffix() -> u32 {
    uuid::Uuid::new_v4().as_fields().0
}

fn request_with_scope(caller: &Caller, service: &str, region: &str) -> hyper::http::request::Builder {
    let scope = format!("{}/20260101/{region}/{service}/aws4_request", caller.access_key);
    let authorization = format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0");
    let mut request =
        Request::builder().method(Method::POST).uri("/").header(header::AUTHORIZATION, authorization);
    if let Some(token) = &caller.token {
        request = request.header("x-amz-security-token", token);
    }
    request
}

/// The services that a trust policy allows to assume the role. The document is percent-encoded or plain JSON.
fn trusted_services(policy: &str) -> std::collections::BTreeSet<String> {
    let document: Value = serde_json::from_str(policy)
        .or_else(|_| serde_json::from_str(&crate::query_string::percent_decode(policy)))
        .unwrap_or_default();
    let statements = match &document["Statement"] {
        Value::Array(all) => all.iter().collect(),
        one => vec![one],
    };
    let allowed = statements.into_iter().filter(|statement| statement["Effect"] == "Allow");
    allowed.flat_map(|statement| string_list(&statement["Principal"]["Service"])).collect()
}

fn string_list(value: &Value) -> Vec<String> {
    match value {
        Value::String(one) => vec![one.clone()],
        Value::Array(all) => all.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

/// A subnet is public if its own route table, or else the main table of its VPC, has a route to an internet gateway.
fn is_public(tables: &Document<'_>, subnet: &str, vpc: &str) -> bool {
    let of_vpc: Vec<_> = list_items(tables.root(), "routeTableSet")
        .filter(|table| child_text(*table, "vpcId") == vpc)
        .collect();
    let associated = |table: &&Node<'_, '_>| {
        list_items(**table, "associationSet").any(|association| child_text(association, "subnetId") == subnet)
    };
    let main = |table: &&Node<'_, '_>| {
        list_items(**table, "associationSet").any(|association| child_text(association, "main") == "true")
    };
    let table = of_vpc.iter().find(associated).or_else(|| of_vpc.iter().find(main));
    table.is_some_and(|table| {
        list_items(*table, "routeSet").any(|route| child_text(route, "gatewayId").starts_with("igw-"))
    })
}

/// The entries of the first list element of that name: `item` in EC2, `member` elsewhere.
pub(crate) fn list_items<'a, 'i>(node: Node<'a, 'i>, list: &'a str) -> impl Iterator<Item = Node<'a, 'i>> {
    let found = node.descendants().find(move |n| n.has_tag_name_local(list));
    found.into_iter().flat_map(|list| list.children().filter(Node::is_element))
}

pub(crate) fn child_text(node: Node<'_, '_>, name: &str) -> String {
    let child = node.children().find(|child| child.has_tag_name_local(name));
    child.and_then(|child| child.text()).unwrap_or_default().trim().to_owned()
}

pub(crate) fn first_text(node: Node<'_, '_>, name: &str) -> Option<String> {
    node.descendants()
        .find(|n| n.has_tag_name_local(name))
        .and_then(|n| n.text())
        .map(|text| text.trim().to_owned())
}

/// Responses use a namespace per service and version; only local names are compared.
trait LocalName {
    fn has_tag_name_local(&self, name: &str) -> bool;
}

impl LocalName for Node<'_, '_> {
    fn has_tag_name_local(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(
        r#"{"Statement":[{"Effect":"Allow","Principal":{"Service":"eks-fargate-pods.amazonaws.com"}}]}"#,
        true
    )]
    #[case(r#"{"Statement":{"Effect":"Allow","Principal":{"Service":["ec2.amazonaws.com","eks-fargate-pods.amazonaws.com"]}}}"#, true)]
    #[case(
        "%7B%22Statement%22%3A%5B%7B%22Effect%22%3A%22Allow%22%2C%22Principal%22%3A%7B%22Service%22%3A%22eks-fargate-pods.amazonaws.com%22%7D%7D%5D%7D",
        true
    )]
    #[case(
        r#"{"Statement":[{"Effect":"Deny","Principal":{"Service":"eks-fargate-pods.amazonaws.com"}}]}"#,
        false
    )]
    #[case(r#"{"Statement":[{"Effect":"Allow","Principal":{"AWS":"*"}}]}"#, false)]
    #[case("not json", false)]
    fn trust_is_read_from_the_policy_document(#[case] policy: &str, #[case] trusted: bool) {
        assert_eq!(trusted_services(policy).contains("eks-fargate-pods.amazonaws.com"), trusted);
    }

    #[test]
    fn a_subnet_follows_its_own_table_before_the_main_one() {
        let xml = r#"<R xmlns="urn:x"><routeTableSet>
            <item><vpcId>vpc-1</vpcId><routeSet><item><gatewayId>igw-9</gatewayId></item></routeSet>
              <associationSet><item><main>true</main></item></associationSet></item>
            <item><vpcId>vpc-1</vpcId><routeSet><item><gatewayId>local</gatewayId></item></routeSet>
              <associationSet><item><subnetId>subnet-own</subnetId><main>false</main></item></associationSet></item>
            </routeTableSet></R>"#;
        let tables = Document::parse(xml).unwrap();
        assert!(!is_public(&tables, "subnet-own", "vpc-1"));
        assert!(is_public(&tables, "subnet-other", "vpc-1"));
        assert!(!is_public(&tables, "subnet-other", "vpc-2"));
    }
}
