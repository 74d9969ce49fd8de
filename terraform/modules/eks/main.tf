# The control plane. Order of creation: role, key and log group; the cluster; its Fargate profile; access
# entries; addons. Deletion runs backwards. The order is not taste: EKS refuses to create or delete a
# Fargate profile while the cluster has another change in progress.

data "aws_partition" "current" {}

data "aws_caller_identity" "current" {}

data "aws_region" "current" {}

locals {
  # The names of IAM roles are shared by all regions of an account and ignore case, those of clusters
  # do neither: the hash tells apart what the shortened name cannot.
  name_hash  = substr(sha256("${data.aws_region.current.id}/${var.cluster_name}"), 0, 8)
  name_short = "${substr(var.cluster_name, 0, 40)}-${local.name_hash}"

  iam_policies = "arn:${data.aws_partition.current.partition}:iam::aws:policy"
}

resource "aws_iam_role" "cluster" {
  name                  = "${local.name_short}-eks-cluster"
  description           = "Control plane of the EKS cluster ${var.cluster_name}"
  force_detach_policies = true

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "eks.amazonaws.com" }
    }]
  })

  tags = var.tags
}

resource "aws_iam_role_policy_attachment" "cluster" {
  role       = aws_iam_role.cluster.name
  policy_arn = "${local.iam_policies}/AmazonEKSClusterPolicy"
}

# EKS would make this group itself on its first log line, without a retention, and leave it behind.
resource "aws_cloudwatch_log_group" "cluster" {
  count = length(var.log_types) > 0 ? 1 : 0

  name              = "/aws/eks/${var.cluster_name}/cluster"
  retention_in_days = var.log_retention_days

  tags = var.tags

  # Not for replacement: it makes the group go only after the cluster has stopped to log. Before that
  # EKS would make it again.
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_eks_cluster" "this" {
  name                          = var.cluster_name
  version                       = var.kubernetes_version
  role_arn                      = aws_iam_role.cluster.arn
  enabled_cluster_log_types     = var.log_types
  bootstrap_self_managed_addons = false

  access_config {
    authentication_mode                         = "API"
    bootstrap_cluster_creator_admin_permissions = var.bootstrap_creator_admin
  }

  vpc_config {
    subnet_ids              = var.private_subnets
    endpoint_private_access = var.endpoint_private_access
    endpoint_public_access  = var.endpoint_public_access
    # While the endpoint is off EKS answers with the ranges it had before, or with none: both are right.
    public_access_cidrs = var.endpoint_public_access ? var.endpoint_public_cidrs : null
  }

  dynamic "kubernetes_network_config" {
    for_each = compact([var.service_ipv4_cidr])

    content {
      service_ipv4_cidr = kubernetes_network_config.value
    }
  }

  dynamic "encryption_config" {
    for_each = var.encryption_enabled ? [local.kms_key_arn] : []

    content {
      resources = ["secrets"]

      provider {
        key_arn = encryption_config.value
      }
    }
  }

  upgrade_policy {
    support_type = var.upgrade_support_type
  }

  # By this tag capt tells its own cluster from others of the same name. It comes last, so that no tag of a user replaces it.
  tags = merge(var.tags, var.owner == null ? {} : { "capt.x-k8s.io/owner" = var.owner })

  timeouts {
    create = "45m"
    update = "90m"
    delete = "45m"
  }

  lifecycle {
    # Both matter only while the cluster is created; a later change would replace it for nothing.
    ignore_changes = [
      access_config[0].bootstrap_cluster_creator_admin_permissions,
      bootstrap_self_managed_addons,
    ]
  }

  depends_on = [
    aws_cloudwatch_log_group.cluster,
    aws_iam_role_policy_attachment.cluster,
  ]
}
