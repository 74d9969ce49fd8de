//! Everything that exists, for leak checks: what a fresh account would not have.

use std::collections::BTreeSet;

use roxmltree::{Document, Node};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    cloud::{Cloud, Error, child_text, members},
    eks::state::State,
    place::Place,
};

/// One thing that exists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Item {
    pub(crate) service: &'static str,
    pub(crate) r#type: &'static str,
    pub(crate) region: String,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) status: String,
}

/// The objects of EKS.
pub(crate) fn of_eks(state: &State) -> Vec<Item> {
    let mut items = Vec::new();
    for (region, clusters) in &state.regions {
        for cluster in clusters.values() {
            let mut add = |kind, id: &str, name: &str, status: &str| {
                items.push(Item {
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

/// The objects of all other services in the regions that were ever called.
pub(crate) async fn of_moto(cloud: &Cloud, regions: &BTreeSet<String>) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    for region in regions {
        ec2(cloud, region, &mut items).await?;
        keys(cloud, region, &mut items).await?;
        log_groups(cloud, region, &mut items).await?;
    }
    let partitions: BTreeSet<_> =
        regions.iter().map(|region| Place::new(region.as_str()).iam_region()).collect();
    for region in partitions {
        iam(cloud, region, &mut items).await?;
    }
    Ok(items)
}

/// A list of EC2: its action, its list element, and the names of what is shown.
struct List {
    action: &'static str,
    set: &'static str,
    kind: &'static str,
    id: &'static str,
    status: &'static str,
}

#[rustfmt::skip]
const EC2: [List; 9] = [
    List { action: "DescribeSubnets", set: "subnetSet", kind: "subnet", id: "subnetId", status: "state" },
    List { action: "DescribeInternetGateways", set: "internetGatewaySet", kind: "internet-gateway", id: "internetGatewayId", status: "" },
    List { action: "DescribeNatGateways", set: "natGatewaySet", kind: "nat-gateway", id: "natGatewayId", status: "state" },
    List { action: "DescribeAddresses", set: "addressesSet", kind: "elastic-ip", id: "allocationId", status: "" },
    List { action: "DescribeRouteTables", set: "routeTableSet", kind: "route-table", id: "routeTableId", status: "" },
    List { action: "DescribeSecurityGroups", set: "securityGroupInfo", kind: "security-group", id: "groupId", status: "" },
    List { action: "DescribeVpcEndpoints", set: "vpcEndpointSet", kind: "vpc-endpoint", id: "vpcEndpointId", status: "state" },
    List { action: "DescribeEgressOnlyInternetGateways", set: "egressOnlyInternetGatewaySet", kind: "egress-only-internet-gateway", id: "egressOnlyInternetGatewayId", status: "" },
    List { action: "DescribeFlowLogs", set: "flowLogSet", kind: "flow-log", id: "flowLogId", status: "flowLogStatus" },
];

async fn ec2(cloud: &Cloud, region: &str, items: &mut Vec<Item>) -> Result<(), Error> {
    let vpcs = cloud.query("ec2", region, "DescribeVpcs", &[]).await?;
    let default_vpcs = read(&vpcs, "DescribeVpcs", |xml| {
        let mut default = BTreeSet::new();
        for vpc in members(xml.root(), "vpcSet") {
            let id = child_text(vpc, "vpcId");
            if child_text(vpc, "isDefault") == "true" {
                default.insert(id);
            } else {
                items.push(item(("ec2", "vpc"), region, vpc, ("vpcId", "state")));
            }
        }
        default
    })?;
    for list in EC2 {
        let answer = cloud.query("ec2", region, list.action, &[]).await?;
        read(&answer, list.action, |xml| {
            let found = members(xml.root(), list.set).filter(|node| is_ours(&list, *node, &default_vpcs));
            items.extend(found.map(|node| item(("ec2", list.kind), region, node, (list.id, list.status))));
        })?;
    }
    Ok(())
}

/// Whether somebody made it: not part of the default VPC, not made with a VPC, not deleted.
fn is_ours(list: &List, node: Node<'_, '_>, default_vpcs: &BTreeSet<String>) -> bool {
    let gone = ["deleted", "deleting"].contains(&child_text(node, "state").as_str());
    let main_table =
        members(node, "associationSet").any(|association| child_text(association, "main") == "true");
    match list.kind {
        "security-group" => child_text(node, "groupName") != "default",
        "route-table" => !main_table && !default_vpcs.contains(&child_text(node, "vpcId")),
        "subnet" => !default_vpcs.contains(&child_text(node, "vpcId")),
        _ => !gone,
    }
}

async fn iam(cloud: &Cloud, region: &str, items: &mut Vec<Item>) -> Result<(), Error> {
    let lists: [(&str, &str, &'static str, (&str, &str)); 5] = [
        ("ListRoles", "Roles", "role", ("Arn", "RoleName")),
        ("ListPolicies", "Policies", "policy", ("Arn", "PolicyName")),
        ("ListInstanceProfiles", "InstanceProfiles", "instance-profile", ("Arn", "InstanceProfileName")),
        ("ListOpenIDConnectProviders", "OpenIDConnectProviderList", "oidc-provider", ("Arn", "Arn")),
        ("ListUsers", "Users", "user", ("Arn", "UserName")),
    ];
    for (action, set, kind, (id, name)) in lists {
        let answer = cloud.query("iam", region, action, &[("Scope", "Local"), ("MaxItems", "1000")]).await?;
        read(&answer, action, |xml| {
            items.extend(members(xml.root(), set).map(|node| Item {
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

async fn keys(cloud: &Cloud, region: &str, items: &mut Vec<Item>) -> Result<(), Error> {
    let listed = cloud.json("kms", region, "TrentService.ListKeys", &json!({ "Limit": 1000 })).await?;
    for key in listed["Keys"].as_array().into_iter().flatten() {
        let asked = json!({ "KeyId": key["KeyId"] });
        let about = cloud.json("kms", region, "TrentService.DescribeKey", &asked).await?;
        let about = &about["KeyMetadata"];
        if about["KeyState"] != "PendingDeletion" && about["KeyManager"] != "AWS" {
            items.push(Item {
                service: "kms",
                r#type: "key",
                region: region.to_owned(),
                id: text(&about["Arn"]),
                name: text(&about["Description"]),
                status: text(&about["KeyState"]),
            });
        }
    }
    Ok(())
}

async fn log_groups(cloud: &Cloud, region: &str, items: &mut Vec<Item>) -> Result<(), Error> {
    let mut request = json!({});
    loop {
        let page = cloud.json("logs", region, "Logs_20140328.DescribeLogGroups", &request).await?;
        items.extend(page["logGroups"].as_array().into_iter().flatten().map(|group| Item {
            service: "logs",
            r#type: "log-group",
            region: region.to_owned(),
            id: text(&group["arn"]),
            name: text(&group["logGroupName"]),
            status: String::new(),
        }));
        match page["nextToken"].as_str() {
            Some(token) => request = json!({ "nextToken": token }),
            None => return Ok(()),
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn read<T>(answer: &str, operation: &str, look: impl FnOnce(&Document<'_>) -> T) -> Result<T, Error> {
    let xml = Document::parse(answer).map_err(|_| Error::Answer { operation: operation.to_owned() })?;
    Ok(look(&xml))
}

fn item(
    (service, kind): (&'static str, &'static str),
    region: &str,
    node: Node<'_, '_>,
    (id, status): (&str, &str),
) -> Item {
    let named = members(node, "tagSet").find(|tag| child_text(*tag, "key") == "Name");
    let name = named.map(|tag| child_text(tag, "value")).unwrap_or_default();
    Item {
        service,
        r#type: kind,
        region: region.to_owned(),
        id: child_text(node, id),
        name,
        status: child_text(node, status),
    }
}
