//! Our own questions to moto, and the few things that EKS does in other services of the account.

use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::{Method, Request, header};
use roxmltree::{Document, Node};
use serde_json::Value;

use crate::{
    answers::Question,
    eks::context::{Facts, Needs, Role, Subnet},
    place::Place,
    proxy::Upstream,
    text::encode,
    wire::full,
};

const DEADLINE: Duration = Duration::from_mins(1);
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// Why moto could not be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("asking moto for {operation} took more than a minute")]
    Deadline { operation: String },
    #[error("asking moto for {operation}")]
    Exchange {
        operation: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("moto refused {operation}: {code}")]
    Refused { operation: String, code: String },
    #[error("moto's answer to {operation} cannot be read")]
    Answer { operation: String },
}

/// Who asks: IAM identities of moto hang on the access key and token of the caller.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    pub(crate) access_key: String,
    pub(crate) token: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Cloud {
    upstream: Upstream,
}

type Params<'a> = &'a [(&'a str, &'a str)];

impl Cloud {
    pub(crate) fn new(upstream: Upstream) -> Self {
        Self { upstream }
    }

    /// A call of a query protocol; the answer is XML.
    pub(crate) async fn query(
        &self,
        service: &str,
        region: &str,
        action: &str,
        params: Params<'_>,
    ) -> Result<String, Error> {
        self.query_as(
            &Caller { access_key: "local-aws".to_owned(), token: None },
            (service, region),
            action,
            params,
        )
        .await
    }

    async fn query_as(
        &self,
        caller: &Caller,
        (service, region): (&str, &str),
        action: &str,
        params: Params<'_>,
    ) -> Result<String, Error> {
        let version = match service {
            "ec2" => "2016-11-15",
            "iam" => "2010-05-08",
            _ => "2011-06-15",
        };
        let mut form = format!("Action={action}&Version={version}");
        for (key, value) in params {
            form.extend(["&", &encode(key), "=", &encode(value)]);
        }
        let request = signed(caller, service, region)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded; charset=utf-8");
        let (status, text) = self.exchange(action, request, form).await?;
        if status < 300 {
            return Ok(text);
        }
        let code = Document::parse(&text).ok().and_then(|xml| first_text(xml.root(), "Code"));
        Err(Error::Refused { operation: action.to_owned(), code: code.unwrap_or_else(|| status.to_string()) })
    }

    /// A call of a JSON protocol, `target` as in `X-Amz-Target`.
    pub(crate) async fn json(
        &self,
        service: &str,
        region: &str,
        target: &str,
        body: &Value,
    ) -> Result<Value, Error> {
        let caller = Caller { access_key: "local-aws".to_owned(), token: None };
        let request = signed(&caller, service, region)
            .header(header::CONTENT_TYPE, "application/x-amz-json-1.1")
            .header("x-amz-target", target);
        let (status, text) = self.exchange(target, request, body.to_string()).await?;
        if status >= 300 {
            return Err(Error::Refused { operation: target.to_owned(), code: status.to_string() });
        }
        serde_json::from_str(&text).map_err(|_| Error::Answer { operation: target.to_owned() })
    }

    async fn exchange(
        &self,
        operation: &str,
        request: hyper::http::request::Builder,
        body: String,
    ) -> Result<(u16, String), Error> {
        let name = operation.rsplit('.').next().unwrap_or(operation);
        let failed = |source| Error::Exchange { operation: operation.to_owned(), source };
        let request = request.body(full(body)).map_err(|error| failed(error.into()))?;
        let work = async {
            // Our own reads are few; they are not kept.
            let question = Question { operation: name, ..Question::default() };
            let response =
                self.upstream.ask(&question, request).await.map_err(|error| failed(error.into()))?;
            let status = response.status().as_u16();
            let bytes =
                Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(failed)?.to_bytes();
            Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
        };
        let deadline = Error::Deadline { operation: operation.to_owned() };
        tokio::time::timeout(DEADLINE, work).await.unwrap_or(Err(deadline))
    }

    /// Everything that an operation of EKS has to know.
    pub(crate) async fn facts(&self, place: &Place, needs: &Needs, caller: &Caller) -> Result<Facts, Error> {
        let mut facts = Facts::default();
        if !needs.subnets.is_empty() {
            self.subnets(place, needs, &mut facts).await?;
        }
        for principal in &needs.principals {
            self.principal(place, principal, &mut facts).await?;
        }
        if needs.caller {
            facts.caller = self.caller(place, caller).await?;
        }
        Ok(facts)
    }

    async fn subnets(&self, place: &Place, needs: &Needs, facts: &mut Facts) -> Result<(), Error> {
        // A filter, because asking by id fails as a whole when one is missing.
        let keys: Vec<String> = (1..=needs.subnets.len()).map(|n| format!("Filter.1.Value.{n}")).collect();
        let mut params = vec![("Filter.1.Name", "subnet-id")];
        params.extend(keys.iter().map(String::as_str).zip(needs.subnets.iter().map(String::as_str)));
        let answer = self.query("ec2", &place.region, "DescribeSubnets", &params).await?;
        let tables = self.query("ec2", &place.region, "DescribeRouteTables", &[]).await?;
        let unreadable = |operation: &str| Error::Answer { operation: operation.to_owned() };
        let answer = Document::parse(&answer).map_err(|_| unreadable("DescribeSubnets"))?;
        let tables = Document::parse(&tables).map_err(|_| unreadable("DescribeRouteTables"))?;
        for item in members(answer.root(), "subnetSet") {
            let id = child_text(item, "subnetId");
            let vpc_id = child_text(item, "vpcId");
            let subnet = Subnet {
                public: is_public(&tables, &id, &vpc_id),
                vpc_id,
                zone: child_text(item, "availabilityZone"),
                zone_id: child_text(item, "availabilityZoneId"),
            };
            facts.subnets.insert(id, subnet);
        }
        Ok(())
    }

    async fn principal(&self, place: &Place, arn: &str, facts: &mut Facts) -> Result<(), Error> {
        let Some((_, resource)) = arn.rsplit_once(':') else { return Ok(()) };
        let name = resource.rsplit('/').next().unwrap_or_default();
        let (action, key) = match resource.split('/').next() {
            Some("role") => ("GetRole", "RoleName"),
            Some("user") => ("GetUser", "UserName"),
            _ => return Ok(()),
        };
        let answer = match self.query("iam", place.iam_region(), action, &[(key, name)]).await {
            Ok(answer) => answer,
            Err(Error::Refused { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let xml = Document::parse(&answer).map_err(|_| Error::Answer { operation: action.to_owned() })?;
        // The same name under another path is another principal.
        if first_text(xml.root(), "Arn").as_deref() != Some(arn) {
            return Ok(());
        }
        if action == "GetUser" {
            facts.users.insert(arn.to_owned());
        } else {
            let policy = first_text(xml.root(), "AssumeRolePolicyDocument").unwrap_or_default();
            facts.roles.insert(arn.to_owned(), Role { trusts: trusted_services(&policy) });
        }
        Ok(())
    }

    /// The IAM principal behind a call: the role of a session, not the session.
    async fn caller(&self, place: &Place, caller: &Caller) -> Result<String, Error> {
        let answer = self.query_as(caller, ("sts", &place.region), "GetCallerIdentity", &[]).await?;
        let xml = Document::parse(&answer)
            .map_err(|_| Error::Answer { operation: "GetCallerIdentity".to_owned() })?;
        let arn = first_text(xml.root(), "Arn").unwrap_or_default().replacen(":sts:", ":iam:", 1);
        Ok(match arn.split_once(":assumed-role/") {
            Some((head, session)) => format!("{head}:role/{}", session.split('/').next().unwrap_or_default()),
            None => arn,
        })
    }

    /// The security group that EKS makes for a cluster. The answer is its id.
    pub(crate) async fn create_cluster_security_group(
        &self,
        place: &Place,
        cluster: &str,
        vpc_id: &str,
    ) -> Result<String, Error> {
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
        let answer = self.query("ec2", &place.region, "CreateSecurityGroup", &params).await?;
        let xml = Document::parse(&answer)
            .map_err(|_| Error::Answer { operation: "CreateSecurityGroup".to_owned() })?;
        let id = first_text(xml.root(), "groupId");
        id.ok_or_else(|| Error::Answer { operation: "CreateSecurityGroup".to_owned() })
    }

    pub(crate) async fn delete_security_group(&self, place: &Place, id: &str) -> Result<(), Error> {
        self.query("ec2", &place.region, "DeleteSecurityGroup", &[("GroupId", id)]).await.map(drop)
    }
}

fn numeric_suffix() -> u32 {
    uuid::Uuid::new_v4().as_fields().0
}

fn signed(caller: &Caller, service: &str, region: &str) -> hyper::http::request::Builder {
    let scope = format!("{}/20260101/{region}/{service}/aws4_request", caller.access_key);
    let authorization = format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0");
    let mut request =
        Request::builder().method(Method::POST).uri("/").header(header::AUTHORIZATION, authorization);
    if let Some(token) = &caller.token {
        request = request.header("x-amz-security-token", token);
    }
    request
}

/// The services that a trust policy lets assume its role. The document arrives percent-encoded or plain.
fn trusted_services(policy: &str) -> std::collections::BTreeSet<String> {
    let document: Value = serde_json::from_str(policy)
        .or_else(|_| serde_json::from_str(&crate::text::decode(policy)))
        .unwrap_or_default();
    let statements = match &document["Statement"] {
        Value::Array(all) => all.iter().collect(),
        one => vec![one],
    };
    let allowed = statements.into_iter().filter(|statement| statement["Effect"] == "Allow");
    allowed.flat_map(|statement| strings(&statement["Principal"]["Service"])).collect()
}

fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(one) => vec![one.clone()],
        Value::Array(all) => all.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

/// A subnet is public when its own route table, or else the main one of its VPC, leads to an internet gateway.
fn is_public(tables: &Document<'_>, subnet: &str, vpc: &str) -> bool {
    let of_vpc: Vec<_> =
        members(tables.root(), "routeTableSet").filter(|table| child_text(*table, "vpcId") == vpc).collect();
    let associated = |table: &&Node<'_, '_>| {
        members(**table, "associationSet").any(|association| child_text(association, "subnetId") == subnet)
    };
    let main = |table: &&Node<'_, '_>| {
        members(**table, "associationSet").any(|association| child_text(association, "main") == "true")
    };
    let table = of_vpc.iter().find(associated).or_else(|| of_vpc.iter().find(main));
    table.is_some_and(|table| {
        members(*table, "routeSet").any(|route| child_text(route, "gatewayId").starts_with("igw-"))
    })
}

/// The entries of the first list element of that name: `item` in EC2, `member` elsewhere.
pub(crate) fn members<'a, 'i>(node: Node<'a, 'i>, list: &'a str) -> impl Iterator<Item = Node<'a, 'i>> {
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

/// Answers are in a namespace per service and version; only local names matter here.
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
