# What Fargate needs in every cluster: one pod execution role, and a profile on which CoreDNS can run.

locals {
  pod_execution_role_arn = var.pod_execution_role_arn == null ? one(aws_iam_role.pod_execution[*].arn) : var.pod_execution_role_arn

  # Only the profiles of this cluster may use the role: without it any cluster of any account could
  # have EKS assume it (the confused deputy).
  profile_arns = "arn:${data.aws_partition.current.partition}:eks:${data.aws_region.current.id}:${data.aws_caller_identity.current.account_id}:fargateprofile/${var.cluster_name}/*"
}

resource "aws_iam_role" "pod_execution" {
  count = var.pod_execution_role_arn == null ? 1 : 0

  name                  = "${local.name_short}-fargate-pods"
  path                  = "/"
  description           = "Starts the Fargate pods of the EKS cluster ${var.cluster_name}"
  force_detach_policies = true

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "eks-fargate-pods.amazonaws.com" }
      Condition = { ArnLike = { "aws:SourceArn" = local.profile_arns } }
    }]
  })

  tags = var.tags
}

resource "aws_iam_role_policy_attachment" "pod_execution" {
  count = var.pod_execution_role_arn == null ? 1 : 0

  role       = aws_iam_role.pod_execution[0].name
  policy_arn = "${local.iam_policies}/AmazonEKSFargatePodExecutionRolePolicy"
}

resource "aws_eks_fargate_profile" "system" {
  count = var.system_profile ? 1 : 0

  cluster_name           = aws_eks_cluster.this.name
  fargate_profile_name   = "system"
  pod_execution_role_arn = local.pod_execution_role_arn
  subnet_ids             = var.private_subnets

  selector {
    namespace = "kube-system"
    labels    = { "k8s-app" = "kube-dns" }
  }

  tags = var.tags

  timeouts {
    create = "30m"
    delete = "60m"
  }

  depends_on = [aws_iam_role_policy_attachment.pod_execution]
}
