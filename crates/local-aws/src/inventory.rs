//! Inventory of all existing resources, for leak checks: everything that a fresh account would not have.

use std::collections::BTreeSet;

use roxmltree::{Document, Node};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    eks::state::EksState,
    moto_client::{MotoClient, MotoError, child_text, list_items},
    region::Region,
};

/// One existing resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct InventoryItem {
    pub(crate) service: &'static str,
    pub(crate) r#type: &'static str,
    pub(crate) region: String,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) status: String,
}

/// Resources of EKS.
pub(crate) fn eks_items(state: &EksState) -> Vec<InventoryItem> {
    let mut items = Vec::new();
    for (region, clusters) in &state.regions {
        for cluster in clusters.values() {
            let mut add = |kind, id: &str, name: &str, status: &str| {
                items.push(InventoryItem {
                    service: "eks",
                    r#type: kind,
                    region: region.clone(),
                    id: id.to_owned(),
                    name: name.to_owned(),
                    status: status.to_owned(),
                });
            };
            add("cluster", &cluster.arn, &cluster.name, cluster.status_name());
            for profile in cluster.profiles.values() {
                let name = format!("{}/{}", cluster.name, profile.name);
                add("fargate-profile", &profile.arn, &name, profile.status.name());
            }
            for addon in cluster.addons.values() {
                add("addon", &addon.arn, &format!("{}/{}", cluster.name, addon.name), addon.status.name());
            }
            for entry in cluster.access_entries.values() {
                add(
                    "access-entry",
                    &entry.arn,
                    &format!("{}/{}", cluster.name, entry.principal),
                    &entry.kind,
                );
            }
            for association in cluster.associations.values() {
                let name =
                    format!("{}/{}/{}", cluster.name, association.namespace, association.service_account);
                add("pod-identity-association", &association.arn, &name, "");
            }
            for provider in cluster.identity_providers.values() {
                let name = format!("{}/{}", cluster.name, provider.name);
                add("identity-provider-config", &provider.arn, &name, &provider.status);
            }
        }
    }
    items
}

/// Resources of all other services, in every region that received a call.
pub(crate) async fn moto_items(
    cloud: &MotoClient,
    regions: &BTreeSet<String>,
) -> Result<Vec<InventoryItem>, MotoError> {
    let mut items = Vec::new();
    for region in regions {
        collect_ec2(cloud, region, &mut items).await?;
        collect_kms_keys(cloud, region, &mut items).await?;
        collect_log_groups(cloud, region, &mut items).await?;
    }
    let partitions: BTreeSet<_> =
        regions.iter().map(|region| Region::new(region.as_str()).iam_region()).collect();
    for region in partitions {
        collect_iam(cloud, region, &mut items).await?;
    }
    Ok(items)
}

/// An EC2 list call: its action, its list element and the element names of id and status.
struct Ec2Listing {
    action: &'static str,
    set: &'static str,
    kind: &'static str,
    id: &'static str,
    status: &'static str,
}

#[rustfmt::skip]
const EC2_LISTINGS: [Ec2Listing; 9] = [
    Ec2Listing { action: "DescribeSubnets", set: "subnetSet", kind: "subnet", id: "subnetId", status: "state" },
    Ec2Listing { action: "DescribeInternetGateways", set: "internetGatewaySet", kind: "internet-gateway", id: "internetGatewayId", status: "" },
    Ec2Listing { action: "DescribeNatGateways", set: "natGatewaySet", kind: "nat-gateway", id: "natGatewayId", status: "state" },
    Ec2Listing { action: "DescribeAddresses", set: "addressesSet", kind: "elastic-ip", id: "allocationId", status: "" },
    Ec2Listing { action: "DescribeRouteTables", set: "routeTableSet", kind: "route-table", id: "routeTableId", status: "" },
    Ec2Listing { action: "DescribeSecurityGroups", set: "securityGroupInfo", kind: "security-group", id: "groupId", status: "" },
    Ec2Listing { action: "DescribeVpcEndpoints", set: "vpcEndpointSet", kind: "vpc-endpoint", id: "vpcEndpointId", status: "state" },
    Ec2Listing { action: "DescribeEgressOnlyInternetGateways", set: "egressOnlyInternetGatewaySet", kind: "egress-only-internet-gateway", id: "egressOnlyInternetGatewayId", status: "" },
    Ec2Listing { action: "DescribeFlowLogs", set: "flowLogSet", kind: "flow-log", id: "flowLogId", status: "flowLogStatus" },
];

async fn collect_ec2(
    cloud: &MotoClient,
    region: &str,
    items: &mut Vec<InventoryItem>,
) -> Result<(), MotoError> {
    let vpcs = cloud.call_query("ec2", region, "DescribeVpcs", &[]).await?;
    let default_vpcs = with_parsed_xml(&vpcs, "DescribeVpcs", |xml| {
        let mut default = BTreeSet::new();
        for vpc in list_items(xml.root(), "vpcSet") {
            let id = child_text(vpc, "vpcId");
            if child_text(vpc, "isDefault") == "true" {
                default.insert(id);
            } else {
                items.push(ec2_item(("ec2", "vpc"), region, vpc, ("vpcId", "state")));
            }
        }
        default
    })?;
    for list in EC2_LISTINGS {
        let answer = cloud.call_query("ec2", region, list.action, &[]).await?;
        with_parsed_xml(&answer, list.action, |xml| {
            let found =
                list_items(xml.root(), list.set).filter(|node| is_user_created(&list, *node, &default_vpcs));
            items
                .extend(found.map(|node| ec2_item(("ec2", list.kind), region, node, (list.id, list.status))));
        })?;
    }
    Ok(())
}

/// Whether it was created explicitly: not part of the default VPC, not created along with a VPC, not deleted.
fn is_user_created(list: &Ec2Listing, node: Node<'_, '_>, default_vpcs: &BTreeSet<String>) -> bool {
    let gone = ["deleted", "deleting"].contains(&child_text(node, "state").as_str());
    let main_table =
        list_items(node, "associationSet").any(|association| child_text(association, "main") == "true");
    match list.kind {
        "security-group" => child_text(node, "groupName") != "default",
        "route-table" => !main_table && !default_vpcs.contains(&child_text(node, "vpcId")),
        "subnet" => !default_vpcs.contains(&child_text(node, "vpcId")),
        _ => !gone,
    }
}

async fn collect_iam(
    cloud: &MotoClient,
    region: &str,
    items: &mut Vec<InventoryItem>,
) -> Result<(), MotoError> {
    let lists: [(&str, &str, &'static str, (&str, &str)); 5] = [
        ("ListRoles", "Roles", "role", ("Arn", "RoleName")),
        ("ListPolicies", "Policies", "policy", ("Arn", "PolicyName")),
        ("ListInstanceProfiles", "InstanceProfiles", "instance-profile", ("Arn", "InstanceProfileName")),
        ("ListOpenIDConnectProviders", "OpenIDConnectProviderList", "oidc-provider", ("Arn", "Arn")),
        ("ListUsers", "Users", "user", ("Arn", "UserName")),
    ];
    for (action, set, kind, (id, name)) in lists {
        let answer =
            cloud.call_query("iam", region, action, &[("Scope", "Local"), ("MaxItems", "1000")]).await?;
        with_parsed_xml(&answer, action, |xml| {
            items.extend(list_items(xml.root(), set).map(|node| InventoryItem {
                service: "iam",
                r#type: kind,
                region: "global".to_owned(),
                id: child_text(node, id),
                name: child_text(node, name),
                status: String::new(),
            }));
        })?;
    }
    Ok(())
}

async fn collect_kms_keys(
    cloud: &MotoClient,
    region: &str,
    items: &mut Vec<InventoryItem>,
) -> Result<(), MotoError> {
    let listed = cloud.call_json("kms", region, "TrentService.ListKeys", &json!({ "Limit": 1000 })).await?;
    for key in listed["Keys"].as_array().into_iter().flatten() {
        let asked = json!({ "KeyId": key["KeyId"] });
        let about = cloud.call_json("kms", region, "TrentService.DescribeKey", &asked).await?;
        let about = &about["KeyMetadata"];
        if about["KeyState"] != "PendingDeletion" && about["KeyManager"] != "AWS" {
            items.push(InventoryItem {
                service: "kms",
                r#type: "key",
                region: region.to_owned(),
                id: string_value(&about["Arn"]),
                name: string_value(&about["Description"]),
                status: string_value(&about["KeyState"]),
            });
        }
    }
    Ok(())
}

async fn collect_log_groups(
    cloud: &MotoClient,
    region: &str,
    items: &mut Vec<InventoryItem>,
) -> Result<(), MotoError> {
    let mut request = json!({});
    loop {
        let page = cloud.call_json("logs", region, "Logs_20140328.DescribeLogGroups", &request).await?;
        items.extend(page["logGroups"].as_array().into_iter().flatten().map(|group| InventoryItem {
            service: "logs",
            r#type: "log-group",
            region: region.to_owned(),
            id: string_value(&group["arn"]),
            name: string_value(&group["logGroupName"]),
            status: String::new(),
        }));
        match page["nextToken"].as_str() {
            Some(token) => request = json!({ "nextToken": token }),
            None => return Ok(()),
        }
    }
}

fn string_value(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn with_parsed_xml<T>(
    answer: &str,
    operation: &str,
    look: impl FnOnce(&Document<'_>) -> T,
) -> Result<T, MotoError> {
    let xml = Document::parse(answer)
        .map_err(|_| MotoError::InvalidResponse { operation: operation.to_owned() })?;
    Ok(look(&xml))
}

fn ec2_item(
    (service, kind): (&'static str, &'static str),
    region: &str,
    node: Node<'_, '_>,
    (id, status): (&str, &str),
) -> InventoryItem {
    let named = list_items(node, "tagSet").find(|tag| child_text(*tag, "key") == "Name");
    let name = named.map(|tag| child_text(tag, "value")).unwrap_or_default();
    InventoryItem {
        service,
        r#type: kind,
        region: region.to_owned(),
        id: child_text(node, id),
        name,
        status: child_text(node, status),
    }
}
