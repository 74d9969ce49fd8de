"""Names of AWS calls: which operation a request is, and which of them create, change or delete an object."""

from __future__ import annotations

import re
from urllib.parse import parse_qs

# Operation of a successful call -> the kind of object that it creates, in the words of `cloud.py`.
CREATES = {
    "CreateVpc": "vpc",
    "CreateSubnet": "subnet",
    "CreateInternetGateway": "internet-gateway",
    "CreateRouteTable": "route-table",
    "CreateRoute": "route",
    "AssociateRouteTable": "route-table-association",
    "AllocateAddress": "elastic-ip",
    "CreateNatGateway": "nat-gateway",
    "CreateSecurityGroup": "security-group",
    "CreateRole": "role",
    "AttachRolePolicy": "policy-attachment",
    "CreateKey": "key",
    "CreateAlias": "alias",
    "CreateLogGroup": "log-group",
    "CreateCluster": "cluster",
    "CreateOpenIDConnectProvider": "oidc-provider",
    "CreateAddon": "addon",
    "CreateFargateProfile": "fargate-profile",
    "CreateAccessEntry": "access-entry",
    "AssociateAccessPolicy": "access-policy",
}

# Attaching what is attached already changes nothing and AWS answers 200, so a second call is no second object.
IDEMPOTENT = {"AttachRolePolicy", "AssociateAccessPolicy"}

# How an answer names what was created. A call with the client token of an earlier one is answered with the same object.
_CREATED = [
    re.compile(rb"<(?:vpcId|subnetId|internetGatewayId|routeTableId|associationId|allocationId|natGatewayId|groupId)>([^<]+)<"),
    re.compile(rb"<(?:Arn|OpenIDConnectProviderArn)>([^<]+)<"),
    re.compile(rb'"(?:Arn|arn|addonArn|fargateProfileArn|accessEntryArn)"\s*:\s*"([^"]+)"'),
]
# Answers that name other objects first.
_NAMED_BY = {
    "CreateSubnet": "subnetId", "CreateRouteTable": "routeTableId", "AssociateRouteTable": "associationId",
    "CreateNatGateway": "natGatewayId", "AllocateAddress": "allocationId", "CreateSecurityGroup": "groupId",
    "CreateFargateProfile": "fargateProfileArn", "CreateAddon": "addonArn", "CreateAccessEntry": "accessEntryArn",
}

READS = ("Describe", "List", "Get", "GET ", "HEAD ", "Decode", "Lookup", "Simulate")

_EKS_ROUTES = [
    ("POST", r"/clusters", "CreateCluster"),
    ("POST", r"/clusters/[^/]+/addons", "CreateAddon"),
    ("POST", r"/clusters/[^/]+/addons/[^/]+/update", "UpdateAddon"),
    ("DELETE", r"/clusters/[^/]+/addons/[^/]+", "DeleteAddon"),
    ("POST", r"/clusters/[^/]+/fargate-profiles", "CreateFargateProfile"),
    ("DELETE", r"/clusters/[^/]+/fargate-profiles/[^/]+", "DeleteFargateProfile"),
    ("POST", r"/clusters/[^/]+/access-entries", "CreateAccessEntry"),
    ("POST", r"/clusters/[^/]+/access-entries/[^/]+/access-policies", "AssociateAccessPolicy"),
    ("DELETE", r"/clusters/[^/]+/access-entries/[^/]+/access-policies/.+", "DisassociateAccessPolicy"),
    ("DELETE", r"/clusters/[^/]+/access-entries/[^/]+", "DeleteAccessEntry"),
    ("POST", r"/clusters/[^/]+/updates", "UpdateClusterVersion"),
    ("POST", r"/clusters/[^/]+/update-config", "UpdateClusterConfig"),
    ("DELETE", r"/clusters/[^/]+", "DeleteCluster"),
    ("POST", r"/tags/.+", "TagResource"),
    ("DELETE", r"/tags/.+", "UntagResource"),
]


def operation_of(method: str, path: str, target: str | None, body: bytes) -> str:
    """The operation of a request: `X-Amz-Target` (JSON), `Action` (query), or the path (EKS)."""
    if target:
        return target.rsplit(".", 1)[-1]
    if body.startswith(b"Action=") or b"&Action=" in body:
        return parse_qs(body.decode("utf-8", "replace")).get("Action", ["?"])[0]
    plain = path.split("?", 1)[0].rstrip("/")
    for verb, pattern, operation in _EKS_ROUTES:
        if verb == method and re.fullmatch(pattern, plain):
            return operation
    return f"{method} {plain}"


def created_object(operation: str, answer: bytes) -> str:
    """The id of what a call created, or nothing if the answer has none: then a second one cannot succeed."""
    if operation not in CREATES:
        return ""
    if name := _NAMED_BY.get(operation):
        exact = re.search(rf'(?:<{name}>|"{name}"\s*:\s*")([^<"]+)'.encode(), answer)
        return exact[1].decode() if exact else ""
    found = next((match for pattern in _CREATED if (match := pattern.search(answer))), None)
    return found[1].decode() if found else ""


def changes(operation: str) -> bool:
    """Whether a call can change the cloud."""
    return not operation.startswith(READS)
