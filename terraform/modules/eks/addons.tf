# Addons, after everything else: CoreDNS waits for its pods, and those wait for the profile.

locals {
  addons = { for addon in var.addons : addon.name => addon }

  # Merged only where CoreDNS must be told to run on Fargate; every other text is passed on as it is.
  addon_configuration = {
    for name, addon in local.addons : name => (
      name == "coredns" && var.system_profile
      ? jsonencode(merge(jsondecode(coalesce(addon.configuration_values, "{}")), { computeType = "Fargate" }))
      : addon.configuration_values
    )
  }
}

# A version that is left out is chosen by AWS at creation and then stays: it never follows the newest.
resource "aws_eks_addon" "this" {
  for_each = local.addons

  cluster_name                = aws_eks_cluster.this.name
  addon_name                  = each.key
  addon_version               = each.value.version
  configuration_values        = local.addon_configuration[each.key]
  service_account_role_arn    = each.value.service_account_role_arn
  resolve_conflicts_on_create = "OVERWRITE"
  resolve_conflicts_on_update = "OVERWRITE"

  tags = var.tags

  timeouts {
    create = "30m"
    update = "30m"
    delete = "40m"
  }

  depends_on = [
    aws_eks_access_policy_association.this,
    aws_eks_access_entry.this,
    aws_eks_fargate_profile.system,
  ]
}
