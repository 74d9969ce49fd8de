# The key that encrypts Kubernetes secrets. Its policy is the default of KMS, which leaves the decision
# to IAM, so that no caller can lock itself out.

locals {
  create_key  = var.encryption_enabled && var.kms_key_arn == null
  kms_key_arn = local.create_key ? one(aws_kms_key.cluster[*].arn) : var.kms_key_arn
}

resource "aws_kms_key" "cluster" {
  count = local.create_key ? 1 : 0

  description             = "Secrets of the EKS cluster ${var.cluster_name}"
  enable_key_rotation     = true
  deletion_window_in_days = 30

  tags = var.tags
}

resource "aws_kms_alias" "cluster" {
  count = local.create_key ? 1 : 0

  name          = "alias/eks/${var.cluster_name}"
  target_key_id = aws_kms_key.cluster[0].key_id
}
