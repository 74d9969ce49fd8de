//! Changes to resources outside of terraform, as with the AWS console.

use serde_json::{Value, json};

use super::harness::send_http;

const REGION: &str = "eu-central-1";
const FOREIGN_TAG_KEY: &str = "somebody-else";

/// A second client of the local AWS.
pub(crate) struct ConsoleClient {
    pub(crate) address: String,
}

/// A call of AWS.
#[derive(Debug, Clone)]
pub(crate) enum AwsCall {
    /// EC2 and IAM take forms.
    Query(&'static str, String),
    /// EKS takes paths.
    Rest(String, Value),
    /// KMS and the logs take JSON.
    Json(&'static str, &'static str, Value),
}

/// A change and its reversal.
pub(crate) struct ReversibleChange {
    pub(crate) calls: Vec<AwsCall>,
    pub(crate) undo_calls: Vec<AwsCall>,
}

/// Whether a change is possible for a resource type.
pub(crate) enum ChangePlan {
    Supported(ReversibleChange),
    /// Reason why it is impossible.
    Unsupported(&'static str),
}

impl ConsoleClient {
    /// Sends the calls in order; each must succeed.
    pub(crate) fn call_all(&self, calls: &[AwsCall]) {
        for call in calls {
            self.call(call);
        }
    }

    /// Creates an unused KMS key.
    pub(crate) fn create_kms_key(&self) -> String {
        let made: Value =
            serde_json::from_str(&self.call(&kms_call("TrentService.CreateKey", json!({})))).unwrap();
        str_attribute(&made["KeyMetadata"], "KeyId").to_owned()
    }

    fn call(&self, call: &AwsCall) -> String {
        match call {
            AwsCall::Query(service, form) => {
                let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
                send_http(&self.address, "POST /", &format!("{}{kind}", authorization(service)), form)
            }
            AwsCall::Rest(request, body) => {
                let body = if body.is_null() { String::new() } else { body.to_string() };
                send_http(&self.address, request, &authorization("eks"), &body)
            }
            AwsCall::Json(service, target, body) => {
                let kind = format!("Content-Type: application/x-amz-json-1.1\r\nX-Amz-Target: {target}\r\n");
                let headers = format!("{}{kind}", authorization(service));
                send_http(&self.address, "POST /", &headers, &body.to_string())
            }
        }
    }
}

fn authorization(service: &str) -> String {
    let scope = format!("test/20260101/{REGION}/{service}/aws4_request");
    format!("Authorization: AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0\r\n")
}

fn ec2_call(form: &str) -> AwsCall {
    AwsCall::Query("ec2", format!("{form}&Version=2016-11-15"))
}

fn iam_call(form: &str) -> AwsCall {
    AwsCall::Query("iam", format!("{form}&Version=2010-05-08"))
}

fn logs_call(target: &'static str, body: Value) -> AwsCall {
    AwsCall::Json("logs", target, body)
}

fn kms_call(target: &'static str, body: Value) -> AwsCall {
    AwsCall::Json("kms", target, body)
}

fn supported(act: AwsCall, undo: AwsCall) -> ChangePlan {
    ChangePlan::Supported(ReversibleChange { calls: vec![act], undo_calls: vec![undo] })
}

fn str_attribute<'a>(attributes: &'a Value, name: &str) -> &'a str {
    attributes[name].as_str().unwrap_or_else(|| panic!("no {name} in {attributes}"))
}

/// As part of a path or a form.
fn percent_encode(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    let letter = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(letter).collect()
}

/// Adds a foreign tag.
pub(crate) fn plan_tag(kind: &str, it: &Value) -> ChangePlan {
    match kind {
        "aws_vpc"
        | "aws_subnet"
        | "aws_internet_gateway"
        | "aws_route_table"
        | "aws_nat_gateway"
        | "aws_eip" => {
            let id = str_attribute(it, "id");
            supported(
                ec2_call(&format!(
                    "Action=CreateTags&ResourceId.1={id}&Tag.1.Key={FOREIGN_TAG_KEY}&Tag.1.Value=was-here"
                )),
                ec2_call(&format!("Action=DeleteTags&ResourceId.1={id}&Tag.1.Key={FOREIGN_TAG_KEY}")),
            )
        }
        "aws_eks_cluster" | "aws_eks_addon" | "aws_eks_fargate_profile" => {
            plan_eks_tag(str_attribute(it, "arn"))
        }
        "aws_iam_role" => {
            let name = str_attribute(it, "name");
            supported(
                iam_call(&format!(
                    "Action=TagRole&RoleName={name}&Tags.member.1.Key={FOREIGN_TAG_KEY}&Tags.member.1.Value=was-here"
                )),
                iam_call(&format!("Action=UntagRole&RoleName={name}&TagKeys.member.1={FOREIGN_TAG_KEY}")),
            )
        }
        "aws_iam_openid_connect_provider" => {
            let of = format!(
                "OpenIDConnectProvider&OpenIDConnectProviderArn={}",
                percent_encode(str_attribute(it, "arn"))
            );
            supported(
                iam_call(&format!(
                    "Action=Tag{of}&Tags.member.1.Key={FOREIGN_TAG_KEY}&Tags.member.1.Value=was-here"
                )),
                iam_call(&format!("Action=Untag{of}&TagKeys.member.1={FOREIGN_TAG_KEY}")),
            )
        }
        "aws_kms_key" => {
            let key = str_attribute(it, "key_id");
            supported(
                kms_call(
                    "TrentService.TagResource",
                    json!({"KeyId": key, "Tags": [{"TagKey": FOREIGN_TAG_KEY, "TagValue": "was-here"}]}),
                ),
                kms_call("TrentService.UntagResource", json!({"KeyId": key, "TagKeys": [FOREIGN_TAG_KEY]})),
            )
        }
        "aws_cloudwatch_log_group" => {
            let arn = str_attribute(it, "arn");
            supported(
                logs_call(
                    "Logs_20140328.TagResource",
                    json!({"resourceArn": arn, "tags": {FOREIGN_TAG_KEY: "was-here"}}),
                ),
                logs_call(
                    "Logs_20140328.UntagResource",
                    json!({"resourceArn": arn, "tagKeys": [FOREIGN_TAG_KEY]}),
                ),
            )
        }
        "aws_route" | "aws_route_table_association" | "aws_iam_role_policy_attachment" | "aws_kms_alias" => {
            ChangePlan::Unsupported("AWS has no tags for it")
        }
        other => panic!("no tag call is defined for {other}"),
    }
}

fn plan_eks_tag(arn: &str) -> ChangePlan {
    let path = format!("/tags/{}", percent_encode(arn));
    supported(
        AwsCall::Rest(format!("POST {path}"), json!({"tags": {FOREIGN_TAG_KEY: "was-here"}})),
        AwsCall::Rest(format!("DELETE {path}?tagKeys={FOREIGN_TAG_KEY}"), Value::Null),
    )
}

/// Changes an object in place.
pub(crate) fn plan_change(kind: &str, it: &Value, other_key: &str) -> ChangePlan {
    match kind {
        "aws_vpc" => plan_dns_support_change(it),
        "aws_subnet" => {
            let (id, now) = (str_attribute(it, "id"), it["map_public_ip_on_launch"] == true);
            let set = |value| {
                ec2_call(&format!(
                    "Action=ModifySubnetAttribute&SubnetId={id}&MapPublicIpOnLaunch.Value={value}"
                ))
            };
            supported(set(!now), set(now))
        }
        "aws_internet_gateway" => {
            let of = format!(
                "InternetGateway&InternetGatewayId={}&VpcId={}",
                str_attribute(it, "id"),
                str_attribute(it, "vpc_id")
            );
            supported(ec2_call(&format!("Action=Detach{of}")), ec2_call(&format!("Action=Attach{of}")))
        }
        "aws_iam_role" => {
            let set = |seconds: &Value| {
                let name = str_attribute(it, "name");
                let description =
                    it["description"].as_str().map(|text| format!("&Description={}", percent_encode(text)));
                let description = description.unwrap_or_default();
                iam_call(&format!(
                    "Action=UpdateRole&RoleName={name}&MaxSessionDuration={seconds}{description}"
                ))
            };
            supported(set(&json!(7200)), set(&it["max_session_duration"]))
        }
        "aws_iam_openid_connect_provider" => {
            let set = |prints: &[String]| {
                let prints = prints.iter().enumerate();
                let list: Vec<String> =
                    prints.map(|(at, print)| format!("&ThumbprintList.member.{}={print}", at + 1)).collect();
                let list = list.concat();
                let arn = percent_encode(str_attribute(it, "arn"));
                iam_call(&format!(
                    "Action=UpdateOpenIDConnectProviderThumbprint&OpenIDConnectProviderArn={arn}{list}"
                ))
            };
            let now: Vec<String> = serde_json::from_value(it["thumbprint_list"].clone()).unwrap();
            supported(set(&["a".repeat(40)]), set(&now))
        }
        "aws_kms_key" => {
            let key = json!({"KeyId": str_attribute(it, "key_id")});
            supported(
                kms_call("TrentService.DisableKey", key.clone()),
                kms_call("TrentService.EnableKey", key),
            )
        }
        "aws_cloudwatch_log_group" => {
            let set = |days: &Value| {
                let body = json!({"logGroupName": str_attribute(it, "name"), "retentionInDays": days});
                logs_call("Logs_20140328.PutRetentionPolicy", body)
            };
            supported(set(&json!(30)), set(&it["retention_in_days"]))
        }
        "aws_route" => plan_route_to_nowhere(it),
        "aws_eks_cluster" => {
            let path = format!("POST /clusters/{}/update-config", str_attribute(it, "name"));
            let set = |enabled| {
                let body =
                    json!({"logging": {"clusterLogging": [{"types": ["scheduler"], "enabled": enabled}]}});
                AwsCall::Rest(path.clone(), body)
            };
            supported(set(true), set(false))
        }
        "aws_eks_addon" => {
            let (cluster, name) = (str_attribute(it, "cluster_name"), str_attribute(it, "addon_name"));
            let path = format!("POST /clusters/{cluster}/addons/{name}/update");
            let set = |values: &str| AwsCall::Rest(path.clone(), json!({"configurationValues": values}));
            supported(set("{\"resources\":{}}"), set(it["configuration_values"].as_str().unwrap_or_default()))
        }
        "aws_route_table" => {
            let (id, to) = (str_attribute(it, "id"), "DestinationCidrBlock=192.168.77.0/24");
            supported(
                ec2_call(&format!("Action=CreateRoute&RouteTableId={id}&{to}&GatewayId=local")),
                ec2_call(&format!("Action=DeleteRoute&RouteTableId={id}&{to}")),
            )
        }
        "aws_eip"
        | "aws_nat_gateway"
        | "aws_eks_fargate_profile"
        | "aws_route_table_association"
        | "aws_iam_role_policy_attachment" => ChangePlan::Unsupported(why_immutable(kind)),
        "aws_kms_alias" => {
            let set = |key: &str| {
                let body = json!({"AliasName": str_attribute(it, "name"), "TargetKeyId": key});
                kms_call("TrentService.UpdateAlias", body)
            };
            supported(set(other_key), set(str_attribute(it, "target_key_id")))
        }
        other => panic!("no change is defined for {other}"),
    }
}

/// Switches DNS support of a VPC off and on again.
fn plan_dns_support_change(vpc: &Value) -> ChangePlan {
    let id = str_attribute(vpc, "id");
    let set =
        |value| ec2_call(&format!("Action=ModifyVpcAttribute&VpcId={id}&EnableDnsSupport.Value={value}"));
    supported(set(false), set(true))
}

/// Why AWS offers no call that changes an object of this type in place.
fn why_immutable(kind: &str) -> &'static str {
    match kind {
        "aws_eip" => "its NAT gateway holds it, and an address has no other attribute that can be changed",
        "aws_route_table_association" => "a changed association is a new object with another id",
        "aws_iam_role_policy_attachment" => "an attachment has no attributes",
        _ => "only its tags can be changed",
    }
}

/// Points a route to an unused target.
fn plan_route_to_nowhere(it: &Value) -> ChangePlan {
    let of = format!("RouteTableId={}&DestinationCidrBlock=0.0.0.0/0", str_attribute(it, "route_table_id"));
    let target = match (it["gateway_id"].as_str(), it["nat_gateway_id"].as_str()) {
        (Some(id), _) if !id.is_empty() => format!("GatewayId={id}"),
        (_, Some(id)) => format!("NatGatewayId={id}"),
        _ => panic!("a route to nowhere: {it}"),
    };
    supported(
        ec2_call(&format!("Action=ReplaceRoute&{of}&GatewayId=local")),
        ec2_call(&format!("Action=ReplaceRoute&{of}&{target}")),
    )
}

/// Deletion order of resource types.
pub(crate) fn deletion_rank(kind: &str) -> usize {
    const ORDER: [&str; 16] = [
        "aws_eks_fargate_profile",
        "aws_eks_addon",
        "aws_iam_openid_connect_provider",
        "aws_eks_cluster",
        "aws_cloudwatch_log_group",
        "aws_iam_role_policy_attachment",
        "aws_iam_role",
        "aws_kms_alias",
        "aws_kms_key",
        "aws_route",
        "aws_route_table_association",
        "aws_nat_gateway",
        "aws_eip",
        "aws_route_table",
        "aws_internet_gateway",
        "aws_subnet",
    ];
    ORDER.iter().position(|it| *it == kind).unwrap_or(ORDER.len())
}

/// Deletes an object.
pub(crate) fn deletion_calls(kind: &str, it: &Value) -> Vec<AwsCall> {
    let id = || str_attribute(it, "id");
    let call = match kind {
        "aws_vpc" => ec2_call(&format!("Action=DeleteVpc&VpcId={}", id())),
        "aws_subnet" => ec2_call(&format!("Action=DeleteSubnet&SubnetId={}", id())),
        "aws_internet_gateway" => {
            let of = format!("InternetGateway&InternetGatewayId={}", id());
            return vec![
                ec2_call(&format!("Action=Detach{of}&VpcId={}", str_attribute(it, "vpc_id"))),
                ec2_call(&format!("Action=Delete{of}")),
            ];
        }
        "aws_route_table" => ec2_call(&format!("Action=DeleteRouteTable&RouteTableId={}", id())),
        "aws_route" => {
            let table = str_attribute(it, "route_table_id");
            ec2_call(&format!("Action=DeleteRoute&RouteTableId={table}&DestinationCidrBlock=0.0.0.0/0"))
        }
        "aws_route_table_association" => {
            ec2_call(&format!("Action=DisassociateRouteTable&AssociationId={}", id()))
        }
        "aws_nat_gateway" => ec2_call(&format!("Action=DeleteNatGateway&NatGatewayId={}", id())),
        "aws_eip" => ec2_call(&format!("Action=ReleaseAddress&AllocationId={}", id())),
        "aws_iam_role" => iam_call(&format!("Action=DeleteRole&RoleName={}", str_attribute(it, "name"))),
        "aws_iam_role_policy_attachment" => {
            let (role, policy) = (str_attribute(it, "role"), percent_encode(str_attribute(it, "policy_arn")));
            iam_call(&format!("Action=DetachRolePolicy&RoleName={role}&PolicyArn={policy}"))
        }
        "aws_iam_openid_connect_provider" => {
            let arn = percent_encode(str_attribute(it, "arn"));
            iam_call(&format!("Action=DeleteOpenIDConnectProvider&OpenIDConnectProviderArn={arn}"))
        }
        "aws_kms_key" => kms_call(
            "TrentService.ScheduleKeyDeletion",
            json!({"KeyId": str_attribute(it, "key_id"), "PendingWindowInDays": 7}),
        ),
        "aws_kms_alias" => {
            kms_call("TrentService.DeleteAlias", json!({"AliasName": str_attribute(it, "name")}))
        }
        "aws_cloudwatch_log_group" => {
            logs_call("Logs_20140328.DeleteLogGroup", json!({"logGroupName": str_attribute(it, "name")}))
        }
        _ => AwsCall::Rest(format!("DELETE {}", eks_path(kind, it)), Value::Null),
    };
    vec![call]
}

fn eks_path(kind: &str, it: &Value) -> String {
    let cluster = || str_attribute(it, "cluster_name");
    match kind {
        "aws_eks_cluster" => format!("/clusters/{}", str_attribute(it, "name")),
        "aws_eks_addon" => format!("/clusters/{}/addons/{}", cluster(), str_attribute(it, "addon_name")),
        "aws_eks_fargate_profile" => {
            format!("/clusters/{}/fargate-profiles/{}", cluster(), str_attribute(it, "fargate_profile_name"))
        }
        other => panic!("no deletion is defined for {other}"),
    }
}
