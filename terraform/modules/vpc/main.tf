# The VPC and its subnets. Every collection is keyed by the name of an availability zone, so that
# one zone more or less never moves the resources of another.

data "aws_region" "current" {}

# No filter on the state of a zone: a zone that is impaired today must not look like a removed one.
data "aws_availability_zones" "region" {
  count = local.choose_zones ? 1 : 0

  exclude_zone_ids = local.unusable_zone_ids

  filter {
    name   = "zone-type"
    values = ["availability-zone"]
  }
}

# Remembers the zones the region had at the first apply: a zone that AWS opens later would
# otherwise shift the choice, and with it replace subnets. Nothing is made in AWS for it.
resource "terraform_data" "zones" {
  for_each = toset([for region in [data.aws_region.current.id] : region if local.choose_zones])

  input = sort(data.aws_availability_zones.region[0].names)

  lifecycle {
    ignore_changes = [input]

    precondition {
      condition     = length(data.aws_availability_zones.region[0].names) >= var.az_count
      error_message = "The region has ${length(data.aws_availability_zones.region[0].names)} availability zones that EKS can use, az_count asks for ${var.az_count}: lower az_count or choose another region."
    }
  }
}

locals {
  create       = var.existing_vpc_id == null
  choose_zones = local.create && length(var.availability_zones) == 0

  # Zones in which EKS cannot place a control plane, by the id that is the same in all accounts.
  unusable_zone_ids = ["use1-az3", "usw1-az2", "cac1-az3"]

  candidates = one(values(terraform_data.zones)[*].input)
  zones = !local.create ? [] : (
    length(var.availability_zones) > 0
    ? var.availability_zones
    : slice(local.candidates, 0, min(var.az_count, length(local.candidates)))
  )

  # A private subnet is a sixteenth of a large range and the public ones share the fourth sixteenth
  # (10.0.0.0/16: /20s from 10.0.0.0, /24s from 10.0.48.0). Below /20 that would leave subnets smaller
  # than the /28 that AWS allows, so there a private subnet is a quarter.
  small        = tonumber(split("/", var.cidr)[1]) > 20
  private_bits = local.small ? 2 : 4
  public_bits  = local.small ? 4 : 8
  public_first = local.small ? 12 : 48

  private_cidrs = { for slot, zone in local.zones : zone => cidrsubnet(var.cidr, local.private_bits, slot) }
  public_cidrs  = { for slot, zone in local.zones : zone => cidrsubnet(var.cidr, local.public_bits, local.public_first + slot) }

  nat_zones = {
    none   = []
    single = slice(local.zones, 0, min(1, length(local.zones)))
    per_az = local.zones
  }[var.nat]

  # Which NAT gateway carries a zone's traffic; no entry means no way out.
  nat_for = length(local.nat_zones) == 0 ? {} : {
    for zone in local.zones : zone => contains(local.nat_zones, zone) ? zone : local.nat_zones[0]
  }

  cluster_tags = { "kubernetes.io/cluster/${var.cluster_name}" = "shared" }
}

resource "aws_vpc" "this" {
  count = local.create ? 1 : 0

  cidr_block           = var.cidr
  enable_dns_support   = true
  enable_dns_hostnames = true

  tags = merge(var.tags, { Name = var.name })
}

resource "aws_subnet" "private" {
  for_each = local.private_cidrs

  vpc_id                  = aws_vpc.this[0].id
  availability_zone       = each.key
  cidr_block              = each.value
  map_public_ip_on_launch = false

  tags = merge(var.tags, local.cluster_tags, {
    Name                              = "${var.name}-private-${each.key}"
    "kubernetes.io/role/internal-elb" = "1"
    "karpenter.sh/discovery"          = var.cluster_name
  })
}

resource "aws_subnet" "public" {
  for_each = local.public_cidrs

  vpc_id                  = aws_vpc.this[0].id
  availability_zone       = each.key
  cidr_block              = each.value
  map_public_ip_on_launch = false

  tags = merge(var.tags, local.cluster_tags, {
    Name                     = "${var.name}-public-${each.key}"
    "kubernetes.io/role/elb" = "1"
  })
}
