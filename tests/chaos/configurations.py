"""What the trials create, change and delete. Each configuration is as small as its calls permit, because a trial is as long as
its waits: 10 s for a VPC and 4 s for a KMS key are waits of the AWS provider."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from cloud import ADMIN_ROLE, REGION, Cloud

POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


@dataclass(frozen=True)
class Configuration:
    """A workspace: the Terraform module and its inputs; `seed` is what must exist before."""

    name: str
    module: str | None
    hcl: str = ""
    seeded: bool = False

    def inputs(self, seed: tuple[str, list[str]] | None, operation: str) -> dict[str, object]:
        changed = operation != "create"
        if self.name == "network":
            tags = {"chaos": "changed"} if operation == "update" else {}
            return {"name": "net", "cluster_name": "none", "cidr": "10.50.0.0/16", "az_count": 2, "tags": tags}
        if self.name == "template":
            return {"note": "changed" if operation == "update" else "first"}
        assert seed is not None
        inputs: dict[str, object] = {
            "cluster_name": "demo", "vpc_id": seed[0], "private_subnets": seed[1], "log_types": ["api"],
            "addons": [{"name": "coredns"}],
            "access_entries": [{"principal_arn": ADMIN_ROLE, "policies": [{"policy_arn": POLICY}]}],
        }
        if changed:
            inputs |= CLUSTER_CHANGES[operation]
        return inputs


# One change for each operation, so that an update makes only the calls that the cell is about.
CLUSTER_CHANGES: dict[str, dict[str, object]] = {
    "upgrade": {"kubernetes_version": "1.34"},
    "relog": {"log_types": ["api", "audit"]},
    "retain": {"log_retention_days": 7},
    "shrink": {"addons": [], "access_entries": [], "system_profile": False},
}

# A module of a user: capt knows neither its types nor how their objects could be recognised.
TEMPLATE = """
variable "vpc_id" { type = string }
variable "note" { type = string }
resource "aws_security_group" "this" {
  name   = "chaos"
  vpc_id = var.vpc_id
  tags   = { note = var.note }
}
resource "aws_eip" "this" {
  domain = "vpc"
  tags   = { note = var.note }
}
resource "aws_iam_role" "this" {
  name               = "chaos"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "eks.amazonaws.com" } }]
  })
}
resource "aws_iam_role_policy_attachment" "this" {
  role       = aws_iam_role.this.name
  policy_arn = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
}
resource "aws_cloudwatch_log_group" "this" {
  name = "/chaos"
}
resource "aws_kms_key" "this" {
  description = "chaos"
}
"""

CONFIGURATIONS = {
    "network": Configuration("network", "vpc"),
    "cluster": Configuration("cluster", "eks", seeded=True),
    "template": Configuration("template", None, TEMPLATE, seeded=True),
}


def manifest(configuration: Configuration, seed: tuple[str, list[str]] | None, operation: str) -> list[dict[str, object]]:
    """The Kubernetes objects of a configuration, before (`create`) or after a change."""
    inputs = configuration.inputs(seed, operation)
    spec: dict[str, object] = {"writeConnectionSecretToRef": {"name": "chaos", "namespace": "default"}}
    objects: list[dict[str, object]] = []
    if configuration.module is not None:
        spec |= {"module": configuration.module, "region": REGION, "inputs": inputs}
    else:
        assert seed is not None
        variables = {"vpc_id": seed[0], **{name: str(value) for name, value in inputs.items()}}
        values = [{"key": name, "value": f"${{{name}}}"} for name in variables]
        provider = {"source": "Inline", "module": configuration.hcl, "vars": values}
        objects.append(_object("WorkspaceTemplate", {"template": {"spec": {"forProvider": provider}}}))
        spec |= {"templateRef": {"name": "chaos", "namespace": "default"}, "region": REGION, "variables": variables}
    objects.append(_object("WorkspaceTemplateApply", spec))
    return objects


def _object(kind: str, spec: dict[str, object]) -> dict[str, object]:
    return {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": kind,
            "metadata": {"name": "chaos", "namespace": "default"}, "spec": spec}


def write_manifest(file: Path, configuration: Configuration, seed: tuple[str, list[str]] | None, operation: str) -> Path:
    file.write_text("\n---\n".join(json.dumps(o, indent=1) for o in manifest(configuration, seed, operation)))
    return file


def seed_of(configuration: Configuration, cloud: Cloud) -> tuple[str, list[str]] | None:
    return cloud.seed_network() if configuration.seeded else None
