# One Fargate profile. EKS can change nothing of it but the tags, so that any other change makes a new
# profile: under a new name it is made first, and the old one goes when the new one runs.

resource "aws_eks_fargate_profile" "this" {
  cluster_name           = var.cluster_name
  fargate_profile_name   = var.profile_name
  pod_execution_role_arn = var.pod_execution_role_arn
  subnet_ids             = var.private_subnets

  dynamic "selector" {
    for_each = var.selectors

    content {
      namespace = selector.value.namespace
      labels    = length(selector.value.labels) > 0 ? selector.value.labels : null
    }
  }

  tags = var.tags

  timeouts {
    create = "30m"
    delete = "60m"
  }

  lifecycle {
    create_before_destroy = true
  }
}
