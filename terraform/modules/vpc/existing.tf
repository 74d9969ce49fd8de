# An existing VPC: read, checked, never changed.

data "aws_subnets" "existing" {
  count = local.create ? 0 : 1

  filter {
    name   = "vpc-id"
    values = [var.existing_vpc_id]
  }
}

# Only asked for when it is there: this question fails for a VPC that is gone, and a workspace whose
# VPC was deleted must still be destroyable.
data "aws_vpc" "existing" {
  count = length(flatten(data.aws_subnets.existing[*].ids)) > 0 ? 1 : 0

  id = var.existing_vpc_id

  lifecycle {
    postcondition {
      condition     = self.enable_dns_support && self.enable_dns_hostnames
      error_message = "VPC ${self.id} has DNS support ${self.enable_dns_support ? "on" : "off"} and DNS hostnames ${self.enable_dns_hostnames ? "on" : "off"}; EKS needs both. Remedy: aws ec2 modify-vpc-attribute --vpc-id ${self.id} --enable-dns-support, then the same with --enable-dns-hostnames."
    }
  }
}

data "aws_subnet" "existing" {
  for_each = toset(flatten(data.aws_subnets.existing[*].ids))

  id = each.key
}

data "aws_route_tables" "existing" {
  count = local.create ? 0 : 1

  vpc_id = var.existing_vpc_id
}

data "aws_route_table" "existing" {
  for_each = toset(flatten(data.aws_route_tables.existing[*].ids))

  route_table_id = each.key
}

# Remembers the subnets that were found at the first apply: a subnet that somebody adds to the VPC
# later would otherwise replace every Fargate profile. Explicit ids always win over it.
resource "terraform_data" "found" {
  for_each = toset(compact([var.existing_vpc_id]))

  input = {
    private = local.found_private
    public  = local.found_public
  }

  lifecycle {
    ignore_changes = [input]
  }
}

locals {
  internet_tables = [
    for id, table in data.aws_route_table.existing : id
    if anytrue([for route in table.routes : startswith(coalesce(route.gateway_id, "none"), "igw-")])
  ]

  main_table = one([
    for id, table in data.aws_route_table.existing : id
    if anytrue([for association in table.associations : association.main])
  ])

  own_tables = merge([
    for id, table in data.aws_route_table.existing : {
      for association in table.associations : association.subnet_id => id
      if !association.main && try(length(association.subnet_id), 0) > 0
    }
  ]...)

  # A subnet without a table of its own follows the main one.
  internet_subnets = [
    for id in keys(data.aws_subnet.existing) : id
    if contains(local.internet_tables, lookup(local.own_tables, id, coalesce(local.main_table, "none")))
  ]

  # Names of local and Wavelength zones are longer than the pattern; Fargate runs in neither.
  usable_subnets = [
    for id, subnet in data.aws_subnet.existing : id
    if !contains(local.unusable_zone_ids, subnet.availability_zone_id)
    && can(regex("^[a-z]{2,}(-[a-z]+)+-[0-9]+[a-z]$", subnet.availability_zone))
    && try(length(subnet.outpost_arn), 0) == 0
  ]

  found_private = sort([for id in local.usable_subnets : id if !contains(local.internet_subnets, id)])
  found_public  = sort([for id in local.usable_subnets : id if contains(local.internet_subnets, id)])
  found         = one(values(terraform_data.found)[*].input)

  existing_private = local.create ? [] : (
    length(var.existing_private_subnet_ids) > 0 ? var.existing_private_subnet_ids : local.found.private
  )
  existing_public = local.create ? [] : (
    length(var.existing_public_subnet_ids) > 0 ? var.existing_public_subnet_ids : local.found.public
  )
  existing_zones = sort(distinct([
    for id in local.existing_private : data.aws_subnet.existing[id].availability_zone
    if contains(keys(data.aws_subnet.existing), id)
  ]))

  # What EKS or Fargate would refuse later, and less clearly.
  strangers   = setsubtract(concat(local.existing_private, local.existing_public), keys(data.aws_subnet.existing))
  not_private = setintersection(local.existing_private, local.internet_subnets)
  misplaced   = setsubtract(local.existing_private, concat(local.usable_subnets, tolist(local.strangers)))
}

check "free_addresses" {
  assert {
    condition     = alltrue([for id in local.existing_private : try(data.aws_subnet.existing[id].available_ip_address_count >= 16, true)])
    error_message = "Private subnets with fewer than 16 free addresses: ${join(", ", [for id in local.existing_private : id if try(data.aws_subnet.existing[id].available_ip_address_count < 16, false)])}. EKS needs 6 in each of its subnets and every Fargate pod one more."
  }
}
