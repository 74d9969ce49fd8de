locals {
  vpc_id          = local.create ? one(aws_vpc.this[*].id) : var.existing_vpc_id
  private_subnets = local.create ? [for zone in local.zones : aws_subnet.private[zone].id] : local.existing_private
  public_subnets  = local.create ? [for zone in local.zones : aws_subnet.public[zone].id] : local.existing_public
}

output "vpc_id" {
  description = "Id of the VPC, made here or existing."
  value       = local.vpc_id
}

output "private_subnets" {
  description = "Ids of the private subnets; one a zone in the order of azs when the VPC was made here."
  value       = local.private_subnets

  precondition {
    condition     = length(local.strangers) == 0 || length(data.aws_subnet.existing) == 0
    error_message = "Not subnets of VPC ${coalesce(var.existing_vpc_id, "-")}: ${join(", ", local.strangers)}. A subnet that was found earlier may have been deleted: name the subnets to use in existing_private_subnet_ids and existing_public_subnet_ids."
  }

  precondition {
    condition     = length(local.not_private) == 0
    error_message = "Subnets with a route to an internet gateway cannot be private subnets: ${join(", ", local.not_private)}. Fargate refuses them: name other subnets in existing_private_subnet_ids, or route these through a NAT gateway."
  }

  precondition {
    condition     = length(local.misplaced) == 0
    error_message = "Subnets in a zone, or on an Outpost, that EKS with Fargate cannot use: ${join(", ", local.misplaced)}. Name subnets in ordinary availability zones in existing_private_subnet_ids."
  }

  precondition {
    condition     = local.create || length(data.aws_subnet.existing) > 0
    error_message = "VPC ${coalesce(var.existing_vpc_id, "-")} does not exist in region ${data.aws_region.current.id}, or has no subnets: correct existing_vpc_id or the region, or add private subnets in two availability zones."
  }

  precondition {
    condition     = local.create || length(data.aws_subnet.existing) == 0 || length(local.existing_private) > 0
    error_message = "VPC ${coalesce(var.existing_vpc_id, "-")} has no private subnet: every usable subnet has a route to an internet gateway. Add private subnets in two availability zones, or choose another VPC."
  }

  precondition {
    condition     = local.create || length(local.existing_private) == 0 || length(local.strangers) > 0 || length(local.existing_zones) >= 2
    error_message = "The private subnets of VPC ${coalesce(var.existing_vpc_id, "-")} are all in ${join(", ", local.existing_zones)}; EKS needs two availability zones. Add a private subnet in another zone, or name one in existing_private_subnet_ids."
  }
}

output "public_subnets" {
  description = "Ids of the public subnets; may be empty for an existing VPC."
  value       = local.public_subnets
}

output "azs" {
  description = "Names of the availability zones of the private subnets."
  value       = local.create ? local.zones : local.existing_zones
}

output "vpc_cidr" {
  description = "Primary IPv4 range of the VPC."
  value       = local.create ? one(aws_vpc.this[*].cidr_block) : one(data.aws_vpc.existing[*].cidr_block)
}

output "natgw_ids" {
  description = "Ids of the NAT gateways made here."
  value       = [for zone in local.nat_zones : aws_nat_gateway.this[zone].id]
}

output "vpc_config" {
  description = "The network as the text of a tfvars file, for a later workspace's var file."
  sensitive   = true
  value       = <<-EOT
    vpc_id          = ${jsonencode(local.vpc_id)}
    private_subnets = ${jsonencode(local.private_subnets)}
    public_subnets  = ${jsonencode(local.public_subnets)}
  EOT
}
