//! What somebody with the AWS console can do to an object that terraform made.

use serde_json::{Value, json};

use super::capt::exchange;

const REGION: &str = "eu-central-1";
const KEY: &str = "somebody-else";

/// The local AWS, as somebody else sees it.
pub(crate) struct Aws {
    pub(crate) address: String,
}

/// A call of AWS.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    /// EC2 and IAM take forms.
    Form(&'static str, String),
    /// EKS takes paths.
    Path(String, Value),
    /// KMS and the logs take JSON.
    Json(&'static str, &'static str, Value),
}

/// Something that can be taken back.
pub(crate) struct Deed {
    pub(crate) act: Vec<Call>,
    pub(crate) undo: Vec<Call>,
}

/// Whether something can be done to objects of a type.
pub(crate) enum Meddling {
    Can(Deed),
    /// For this reason it cannot.
    Cannot(&'static str),
}

impl Aws {
    /// Calls in this order; each must be a good one.
    pub(crate) fn all(&self, calls: &[Call]) {
        for call in calls {
            self.call(call);
        }
    }

    /// A key of KMS that nobody uses.
    pub(crate) fn make_key(&self) -> String {
        let made: Value =
            serde_json::from_str(&self.call(&kms("TrentService.CreateKey", json!({})))).unwrap();
        text(&made["KeyMetadata"], "KeyId").to_owned()
    }

    fn call(&self, call: &Call) -> String {
        match call {
            Call::Form(service, form) => {
                let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
                exchange(&self.address, "POST /", &format!("{}{kind}", authorization(service)), form)
            }
            Call::Path(request, body) => {
                let body = if body.is_null() { String::new() } else { body.to_string() };
                exchange(&self.address, request, &authorization("eks"), &body)
            }
            Call::Json(service, target, body) => {
                let kind = format!("Content-Type: application/x-amz-json-1.1\r\nX-Amz-Target: {target}\r\n");
                let headers = format!("{}{kind}", authorization(service));
                exchange(&self.address, "POST /", &headers, &body.to_string())
            }
        }
    }
}

fn authorization(service: &str) -> String {
    let scope = format!("test/20260101/{REGION}/{service}/aws4_request");
    format!("Authorization: AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0\r\n")
}

fn ec2(form: &str) -> Call {
    Call::Form("ec2", format!("{form}&Version=2016-11-15"))
}

fn iam(form: &str) -> Call {
    Call::Form("iam", format!("{form}&Version=2010-05-08"))
}

fn logs(target: &'static str, body: Value) -> Call {
    Call::Json("logs", target, body)
}

fn kms(target: &'static str, body: Value) -> Call {
    Call::Json("kms", target, body)
}

fn can(act: Call, undo: Call) -> Meddling {
    Meddling::Can(Deed { act: vec![act], undo: vec![undo] })
}

fn text<'a>(attributes: &'a Value, name: &str) -> &'a str {
    attributes[name].as_str().unwrap_or_else(|| panic!("no {name} in {attributes}"))
}

/// As part of a path or a form.
fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    let letter = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(letter).collect()
}

/// Gives an object a tag that nobody asked for.
pub(crate) fn tag(kind: &str, it: &Value) -> Meddling {
    match kind {
        "aws_vpc"
        | "aws_subnet"
        | "aws_internet_gateway"
        | "aws_route_table"
        | "aws_nat_gateway"
        | "aws_eip" => {
            let id = text(it, "id");
            can(
                ec2(&format!("Action=CreateTags&ResourceId.1={id}&Tag.1.Key={KEY}&Tag.1.Value=was-here")),
                ec2(&format!("Action=DeleteTags&ResourceId.1={id}&Tag.1.Key={KEY}")),
            )
        }
        "aws_eks_cluster" | "aws_eks_addon" | "aws_eks_fargate_profile" => eks_tag(text(it, "arn")),
        "aws_iam_role" => {
            let name = text(it, "name");
            can(
                iam(&format!(
                    "Action=TagRole&RoleName={name}&Tags.member.1.Key={KEY}&Tags.member.1.Value=was-here"
                )),
                iam(&format!("Action=UntagRole&RoleName={name}&TagKeys.member.1={KEY}")),
            )
        }
        "aws_iam_openid_connect_provider" => {
            let of = format!("OpenIDConnectProvider&OpenIDConnectProviderArn={}", encoded(text(it, "arn")));
            can(
                iam(&format!("Action=Tag{of}&Tags.member.1.Key={KEY}&Tags.member.1.Value=was-here")),
                iam(&format!("Action=Untag{of}&TagKeys.member.1={KEY}")),
            )
        }
        "aws_kms_key" => {
            let key = text(it, "key_id");
            can(
                kms(
                    "TrentService.TagResource",
                    json!({"KeyId": key, "Tags": [{"TagKey": KEY, "TagValue": "was-here"}]}),
                ),
                kms("TrentService.UntagResource", json!({"KeyId": key, "TagKeys": [KEY]})),
            )
        }
        "aws_cloudwatch_log_group" => {
            let arn = text(it, "arn");
            can(
                logs("Logs_20140328.TagResource", json!({"resourceArn": arn, "tags": {KEY: "was-here"}})),
                logs("Logs_20140328.UntagResource", json!({"resourceArn": arn, "tagKeys": [KEY]})),
            )
        }
        "aws_route" | "aws_route_table_association" | "aws_iam_role_policy_attachment" | "aws_kms_alias" => {
            Meddling::Cannot("AWS has no tags for it")
        }
        other => panic!("nobody has said how a tag is put on {other}"),
    }
}

fn eks_tag(arn: &str) -> Meddling {
    let path = format!("/tags/{}", encoded(arn));
    can(
        Call::Path(format!("POST {path}"), json!({"tags": {KEY: "was-here"}})),
        Call::Path(format!("DELETE {path}?tagKeys={KEY}"), Value::Null),
    )
}

/// Changes an object in place.
pub(crate) fn change(kind: &str, it: &Value, other_key: &str) -> Meddling {
    match kind {
        "aws_vpc" => {
            let set = |value| {
                ec2(&format!(
                    "Action=ModifyVpcAttribute&VpcId={}&EnableDnsSupport.Value={value}",
                    text(it, "id")
                ))
            };
            can(set(false), set(true))
        }
        "aws_subnet" => {
            let (id, now) = (text(it, "id"), it["map_public_ip_on_launch"] == true);
            let set = |value| {
                ec2(&format!("Action=ModifySubnetAttribute&SubnetId={id}&MapPublicIpOnLaunch.Value={value}"))
            };
            can(set(!now), set(now))
        }
        "aws_internet_gateway" => {
            let of =
                format!("InternetGateway&InternetGatewayId={}&VpcId={}", text(it, "id"), text(it, "vpc_id"));
            can(ec2(&format!("Action=Detach{of}")), ec2(&format!("Action=Attach{of}")))
        }
        "aws_iam_role" => {
            let set = |seconds: &Value| {
                let name = text(it, "name");
                let description =
                    it["description"].as_str().map(|text| format!("&Description={}", encoded(text)));
                let description = description.unwrap_or_default();
                iam(&format!("Action=UpdateRole&RoleName={name}&MaxSessionDuration={seconds}{description}"))
            };
            can(set(&json!(7200)), set(&it["max_session_duration"]))
        }
        "aws_iam_openid_connect_provider" => {
            let set = |prints: &[String]| {
                let prints = prints.iter().enumerate();
                let list: Vec<String> =
                    prints.map(|(at, print)| format!("&ThumbprintList.member.{}={print}", at + 1)).collect();
                let list = list.concat();
                let arn = encoded(text(it, "arn"));
                iam(&format!(
                    "Action=UpdateOpenIDConnectProviderThumbprint&OpenIDConnectProviderArn={arn}{list}"
                ))
            };
            let now: Vec<String> = serde_json::from_value(it["thumbprint_list"].clone()).unwrap();
            can(set(&["a".repeat(40)]), set(&now))
        }
        "aws_kms_key" => {
            let key = json!({"KeyId": text(it, "key_id")});
            can(kms("TrentService.DisableKey", key.clone()), kms("TrentService.EnableKey", key))
        }
        "aws_cloudwatch_log_group" => {
            let set = |days: &Value| {
                let body = json!({"logGroupName": text(it, "name"), "retentionInDays": days});
                logs("Logs_20140328.PutRetentionPolicy", body)
            };
            can(set(&json!(30)), set(&it["retention_in_days"]))
        }
        "aws_route" => route(it),
        "aws_eks_cluster" => {
            let path = format!("POST /clusters/{}/update-config", text(it, "name"));
            let set = |enabled| {
                let body =
                    json!({"logging": {"clusterLogging": [{"types": ["scheduler"], "enabled": enabled}]}});
                Call::Path(path.clone(), body)
            };
            can(set(true), set(false))
        }
        "aws_eks_addon" => {
            let (cluster, name) = (text(it, "cluster_name"), text(it, "addon_name"));
            let path = format!("POST /clusters/{cluster}/addons/{name}/update");
            let set = |values: &str| Call::Path(path.clone(), json!({"configurationValues": values}));
            can(set("{\"resources\":{}}"), set(it["configuration_values"].as_str().unwrap_or_default()))
        }
        "aws_route_table" => {
            let (id, to) = (text(it, "id"), "DestinationCidrBlock=192.168.77.0/24");
            can(
                ec2(&format!("Action=CreateRoute&RouteTableId={id}&{to}&GatewayId=local")),
                ec2(&format!("Action=DeleteRoute&RouteTableId={id}&{to}")),
            )
        }
        "aws_eip" => {
            Meddling::Cannot("its NAT gateway keeps it, and nothing else of an address can be changed")
        }
        "aws_nat_gateway" => Meddling::Cannot("AWS changes nothing of a NAT gateway but its tags"),
        "aws_eks_fargate_profile" => Meddling::Cannot("AWS changes nothing of a profile but its tags"),
        "aws_route_table_association" => Meddling::Cannot("a changed one has another id: AWS makes it anew"),
        "aws_iam_role_policy_attachment" => Meddling::Cannot("it is there or it is not"),
        "aws_kms_alias" => {
            let set = |key: &str| {
                let body = json!({"AliasName": text(it, "name"), "TargetKeyId": key});
                kms("TrentService.UpdateAlias", body)
            };
            can(set(other_key), set(text(it, "target_key_id")))
        }
        other => panic!("nobody has said how {other} is changed"),
    }
}

/// Leads a route to where nobody is.
fn route(it: &Value) -> Meddling {
    let of = format!("RouteTableId={}&DestinationCidrBlock=0.0.0.0/0", text(it, "route_table_id"));
    let target = match (it["gateway_id"].as_str(), it["nat_gateway_id"].as_str()) {
        (Some(id), _) if !id.is_empty() => format!("GatewayId={id}"),
        (_, Some(id)) => format!("NatGatewayId={id}"),
        _ => panic!("a route to nowhere: {it}"),
    };
    can(
        ec2(&format!("Action=ReplaceRoute&{of}&GatewayId=local")),
        ec2(&format!("Action=ReplaceRoute&{of}&{target}")),
    )
}

/// In which order objects can be deleted.
pub(crate) fn last_of_all(kind: &str) -> usize {
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
pub(crate) fn delete(kind: &str, it: &Value) -> Vec<Call> {
    let id = || text(it, "id");
    let call = match kind {
        "aws_vpc" => ec2(&format!("Action=DeleteVpc&VpcId={}", id())),
        "aws_subnet" => ec2(&format!("Action=DeleteSubnet&SubnetId={}", id())),
        "aws_internet_gateway" => {
            let of = format!("InternetGateway&InternetGatewayId={}", id());
            return vec![
                ec2(&format!("Action=Detach{of}&VpcId={}", text(it, "vpc_id"))),
                ec2(&format!("Action=Delete{of}")),
            ];
        }
        "aws_route_table" => ec2(&format!("Action=DeleteRouteTable&RouteTableId={}", id())),
        "aws_route" => {
            let table = text(it, "route_table_id");
            ec2(&format!("Action=DeleteRoute&RouteTableId={table}&DestinationCidrBlock=0.0.0.0/0"))
        }
        "aws_route_table_association" => {
            ec2(&format!("Action=DisassociateRouteTable&AssociationId={}", id()))
        }
        "aws_nat_gateway" => ec2(&format!("Action=DeleteNatGateway&NatGatewayId={}", id())),
        "aws_eip" => ec2(&format!("Action=ReleaseAddress&AllocationId={}", id())),
        "aws_iam_role" => iam(&format!("Action=DeleteRole&RoleName={}", text(it, "name"))),
        "aws_iam_role_policy_attachment" => {
            let (role, policy) = (text(it, "role"), encoded(text(it, "policy_arn")));
            iam(&format!("Action=DetachRolePolicy&RoleName={role}&PolicyArn={policy}"))
        }
        "aws_iam_openid_connect_provider" => {
            let arn = encoded(text(it, "arn"));
            iam(&format!("Action=DeleteOpenIDConnectProvider&OpenIDConnectProviderArn={arn}"))
        }
        "aws_kms_key" => kms(
            "TrentService.ScheduleKeyDeletion",
            json!({"KeyId": text(it, "key_id"), "PendingWindowInDays": 7}),
        ),
        "aws_kms_alias" => kms("TrentService.DeleteAlias", json!({"AliasName": text(it, "name")})),
        "aws_cloudwatch_log_group" => {
            logs("Logs_20140328.DeleteLogGroup", json!({"logGroupName": text(it, "name")}))
        }
        _ => Call::Path(format!("DELETE {}", eks_path(kind, it)), Value::Null),
    };
    vec![call]
}

fn eks_path(kind: &str, it: &Value) -> String {
    let cluster = || text(it, "cluster_name");
    match kind {
        "aws_eks_cluster" => format!("/clusters/{}", text(it, "name")),
        "aws_eks_addon" => format!("/clusters/{}/addons/{}", cluster(), text(it, "addon_name")),
        "aws_eks_fargate_profile" => {
            format!("/clusters/{}/fargate-profiles/{}", cluster(), text(it, "fargate_profile_name"))
        }
        other => panic!("nobody has said how {other} is deleted"),
    }
}
