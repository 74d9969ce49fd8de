"""Walks through EKS with boto3: an SDK that knows the service's model must understand every answer.

Usage: sdk.py ENDPOINT. Any difference is an assertion, any shape that boto3 cannot parse an exception.
"""

import json
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

endpoint = sys.argv[1]


def client(service):
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name="eu-west-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"max_attempts": 0}),
    )


ec2, iam, eks = client("ec2"), client("iam"), client("eks")
WAIT = {"Delay": 0.1, "MaxAttempts": 100}


def refused(code, call, **arguments):
    try:
        answer = call(**arguments)
    except ClientError as error:
        assert error.response["Error"]["Code"] == code, error.response
        return error.response
    raise AssertionError(f"expected {code}, got {answer}")


def role(name, service):
    trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": service}}]}
    return iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]


vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
subnets = [
    ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{n}.0/24", AvailabilityZone=f"eu-west-1{zone}")["Subnet"]["SubnetId"]
    for n, zone in enumerate("ab")
]
control_plane, pods, dev = role("cp", "eks.amazonaws.com"), role("pods", "eks-fargate-pods.amazonaws.com"), role("dev", "pods.eks.amazonaws.com")

made = eks.create_cluster(
    name="sdk",
    version="1.33",
    roleArn=control_plane,
    resourcesVpcConfig={"subnetIds": subnets},
    accessConfig={"authenticationMode": "API_AND_CONFIG_MAP"},
    tags={"team": "a"},
)["cluster"]
assert made["status"] == "CREATING" and made["createdAt"].tzinfo is not None
eks.get_waiter("cluster_active").wait(name="sdk", WaiterConfig=WAIT)
cluster = eks.describe_cluster(name="sdk")["cluster"]
assert cluster["resourcesVpcConfig"]["clusterSecurityGroupId"].startswith("sg-")
assert cluster["certificateAuthority"]["data"]
assert eks.list_clusters()["clusters"] == ["sdk"]


def finish(update, **more):
    while (seen := eks.describe_update(name="sdk", updateId=update["id"], **more)["update"])["status"] == "InProgress":
        pass
    assert seen["status"] == "Successful", seen


finish(eks.update_cluster_version(name="sdk", version="1.34")["update"])
logging = {"clusterLogging": [{"types": ["api"], "enabled": True}]}
finish(eks.update_cluster_config(name="sdk", logging=logging)["update"])
key = "arn:aws:kms:eu-west-1:123456789012:key/1"
encryption = [{"resources": ["secrets"], "provider": {"keyArn": key}}]
finish(eks.associate_encryption_config(clusterName="sdk", encryptionConfig=encryption)["update"])
assert len(eks.list_updates(name="sdk")["updateIds"]) == 3
refused("InvalidParameterException", eks.update_cluster_version, name="sdk", version="1.33")

profile = {"clusterName": "sdk", "podExecutionRoleArn": pods, "selectors": [{"namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}}]}
eks.create_fargate_profile(fargateProfileName="one", **profile)
error = refused("ResourceInUseException", eks.create_fargate_profile, fargateProfileName="two", **profile)
assert error["ResponseMetadata"]["HTTPStatusCode"] == 409 and error["clusterName"] == "sdk", error
eks.get_waiter("fargate_profile_active").wait(clusterName="sdk", fargateProfileName="one", WaiterConfig=WAIT)
described = eks.describe_fargate_profile(clusterName="sdk", fargateProfileName="one")["fargateProfile"]
assert described["subnets"] == subnets and described["selectors"] == profile["selectors"]
assert eks.list_fargate_profiles(clusterName="sdk")["fargateProfileNames"] == ["one"]

eks.create_addon(clusterName="sdk", addonName="coredns", configurationValues='{"computeType":"Fargate"}')
eks.get_waiter("addon_active").wait(clusterName="sdk", addonName="coredns", WaiterConfig=WAIT)
finish(eks.update_addon(clusterName="sdk", addonName="coredns", addonVersion="v1.12.4-eksbuild.1")["update"], addonName="coredns")
assert eks.list_addons(clusterName="sdk")["addons"] == ["coredns"]
offered = eks.describe_addon_versions(kubernetesVersion="1.34", addonName="coredns")["addons"][0]
assert "fargate" in offered["addonVersions"][0]["computeTypes"]
eks.describe_addon_configuration(addonName="coredns", addonVersion="v1.12.4-eksbuild.1")
assert [v["clusterVersion"] for v in eks.describe_cluster_versions(defaultOnly=True)["clusterVersions"]] == ["1.34"]

eks.create_access_entry(clusterName="sdk", principalArn=dev, kubernetesGroups=["devs"])
eks.update_access_entry(clusterName="sdk", principalArn=dev, kubernetesGroups=["ops"])
policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
eks.associate_access_policy(clusterName="sdk", principalArn=dev, policyArn=policy, accessScope={"type": "cluster"})
assert eks.list_associated_access_policies(clusterName="sdk", principalArn=dev)["associatedAccessPolicies"][0]["policyArn"] == policy
eks.disassociate_access_policy(clusterName="sdk", principalArn=dev, policyArn=policy)
pages = list(eks.get_paginator("list_access_entries").paginate(clusterName="sdk", PaginationConfig={"PageSize": 1}))
assert len(pages) == 3 and {entry for page in pages for entry in page["accessEntries"]} > {dev, pods}
assert eks.describe_access_entry(clusterName="sdk", principalArn=pods)["accessEntry"]["type"] == "FARGATE_LINUX"
assert any(p["name"] == "AmazonEKSViewPolicy" for p in eks.list_access_policies()["accessPolicies"])

association = eks.create_pod_identity_association(clusterName="sdk", namespace="default", serviceAccount="web", roleArn=dev)["association"]
eks.update_pod_identity_association(clusterName="sdk", associationId=association["associationId"], roleArn=pods)
found = eks.describe_pod_identity_association(clusterName="sdk", associationId=association["associationId"])["association"]
assert found["roleArn"] == pods
assert len(eks.list_pod_identity_associations(clusterName="sdk")["associations"]) == 1
eks.delete_pod_identity_association(clusterName="sdk", associationId=association["associationId"])

oidc = {"identityProviderConfigName": "dex", "issuerUrl": "https://dex.example.com", "clientId": "k"}
finish(eks.associate_identity_provider_config(clusterName="sdk", oidc=oidc)["update"])
dex = {"type": "oidc", "name": "dex"}
assert eks.list_identity_provider_configs(clusterName="sdk")["identityProviderConfigs"] == [dex]
assert eks.describe_identity_provider_config(clusterName="sdk", identityProviderConfig=dex)["identityProviderConfig"]["oidc"]["status"] == "ACTIVE"
finish(eks.disassociate_identity_provider_config(clusterName="sdk", identityProviderConfig=dex)["update"])

eks.tag_resource(resourceArn=described["fargateProfileArn"], tags={"x": "1", "y": "2"})
eks.untag_resource(resourceArn=described["fargateProfileArn"], tagKeys=["x"])
assert eks.list_tags_for_resource(resourceArn=described["fargateProfileArn"])["tags"] == {"y": "2"}
assert eks.list_nodegroups(clusterName="sdk")["nodegroups"] == []

refused("ResourceInUseException", eks.delete_cluster, name="sdk")
eks.delete_access_entry(clusterName="sdk", principalArn=dev)
eks.delete_addon(clusterName="sdk", addonName="coredns")
eks.get_waiter("addon_deleted").wait(clusterName="sdk", addonName="coredns", WaiterConfig=WAIT)
eks.delete_fargate_profile(clusterName="sdk", fargateProfileName="one")
eks.get_waiter("fargate_profile_deleted").wait(clusterName="sdk", fargateProfileName="one", WaiterConfig=WAIT)
eks.delete_cluster(name="sdk")
eks.get_waiter("cluster_deleted").wait(name="sdk", WaiterConfig=WAIT)
error = refused("ResourceNotFoundException", eks.describe_cluster, name="sdk")
assert error["Error"]["Message"] == "No cluster found for name: sdk.", error
print("every answer was understood")
