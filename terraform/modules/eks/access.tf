# Who may use the cluster: IAM roles for service accounts, and access entries for people and machines.

locals {
  issuer = aws_eks_cluster.this.identity[0].oidc[0].issuer

  access_entries = { for entry in var.access_entries : entry.principal_arn => entry }

  access_policies = merge([
    for entry in var.access_entries : {
      for policy in entry.policies : "${entry.principal_arn} ${policy.policy_arn}" => merge(policy, {
        principal_arn = entry.principal_arn
      })
    }
  ]...)
}

resource "aws_iam_openid_connect_provider" "cluster" {
  url            = local.issuer
  client_id_list = ["sts.amazonaws.com"]

  # IAM trusts the certificates of EKS by their root and ignores this, but older providers demand
  # one. It is the fingerprint of the root that signs them.
  thumbprint_list = ["9e99a48a9960b14926bb7f3b02e22da2b0ab7280"]

  tags = var.tags
}

resource "aws_eks_access_entry" "this" {
  for_each = local.access_entries

  cluster_name      = aws_eks_cluster.this.name
  principal_arn     = each.key
  type              = each.value.type
  kubernetes_groups = each.value.type == "STANDARD" ? each.value.kubernetes_groups : null

  tags = var.tags

  depends_on = [aws_eks_fargate_profile.system]
}

resource "aws_eks_access_policy_association" "this" {
  for_each = local.access_policies

  cluster_name  = aws_eks_cluster.this.name
  principal_arn = aws_eks_access_entry.this[each.value.principal_arn].principal_arn
  policy_arn    = each.value.policy_arn

  access_scope {
    type       = each.value.scope_type
    namespaces = each.value.scope_type == "namespace" ? each.value.namespaces : null
  }
}
