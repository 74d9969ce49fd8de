# The NAT matrix, and what a change of the mode or of the region's zones may move.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  name         = "demo"
  cluster_name = "demo"
}

run "none_leaves_the_private_subnets_without_a_way_out" {
  command = plan

  variables {
    nat = "none"
  }

  assert {
    condition     = length(aws_nat_gateway.this) + length(aws_eip.nat) + length(aws_route.nat) + length(output.natgw_ids) == 0
    error_message = "NAT none must make no gateway, address or route"
  }

  assert {
    condition     = length(aws_route_table.private) == 3 && length(aws_route_table_association.private) == 3 && length(aws_route.internet) == 1
    error_message = "the tables are there without NAT too"
  }
}

run "none_with_two_zones_makes_nothing_more" {
  command = plan

  variables {
    nat      = "none"
    az_count = 2
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 0 && length(aws_route_table.private) == 2
    error_message = "NAT none, two zones"
  }
}

run "single_serves_two_zones" {
  command = plan

  variables {
    nat      = "single"
    az_count = 2
  }

  assert {
    condition     = join(",", keys(aws_nat_gateway.this)) == "eu-west-1a" && local.nat_for == tomap({ "eu-west-1a" = "eu-west-1a", "eu-west-1b" = "eu-west-1a" })
    error_message = "NAT single, two zones: ${jsonencode(local.nat_for)}"
  }
}

run "per_az_with_two_zones_makes_two" {
  command = plan

  variables {
    nat      = "per_az"
    az_count = 2
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 2 && length(aws_eip.nat) == 2
    error_message = "NAT per_az, two zones"
  }
}

run "single_serves_all_zones_from_the_first" {
  variables {
    nat = "single"
  }

  assert {
    condition     = join(",", keys(aws_nat_gateway.this)) == "eu-west-1a" && length(aws_eip.nat) == 1 && length(output.natgw_ids) == 1
    error_message = "one gateway with one address, in the first zone"
  }

  assert {
    condition     = length(aws_route.nat) == 3 && alltrue([for route in aws_route.nat : route.nat_gateway_id == aws_nat_gateway.this["eu-west-1a"].id])
    error_message = "every private table leads to the single gateway"
  }

  assert {
    condition     = aws_nat_gateway.this["eu-west-1a"].subnet_id == aws_subnet.public["eu-west-1a"].id
    error_message = "a NAT gateway belongs into a public subnet"
  }
}

run "per_az_adds_to_single_and_moves_nothing" {
  variables {
    nat = "per_az"
  }

  assert {
    condition     = alltrue([for zone in ["eu-west-1a", "eu-west-1b", "eu-west-1c"] : aws_route.nat[zone].nat_gateway_id == aws_nat_gateway.this[zone].id])
    error_message = "every zone has its own way out"
  }

  assert {
    condition     = output.natgw_ids[0] == run.single_serves_all_zones_from_the_first.natgw_ids[0]
    error_message = "the gateway of the first zone is another one"
  }
}

run "another_answer_about_the_zones_changes_nothing" {
  variables {
    nat = "per_az"
  }

  override_data {
    target = data.aws_availability_zones.region
    values = { names = ["eu-west-1a", "eu-west-1c", "eu-west-1d", "eu-west-1e"] }
  }

  assert {
    condition     = join(",", output.azs) == "eu-west-1a,eu-west-1b,eu-west-1c"
    error_message = "zones moved to ${join(",", output.azs)}"
  }
}

run "the_same_zones_by_name_are_the_same_subnets" {
  variables {
    nat                = "per_az"
    availability_zones = ["eu-west-1a", "eu-west-1b", "eu-west-1c"]
  }

  assert {
    condition     = output.private_subnets == run.per_az_adds_to_single_and_moves_nothing.private_subnets && aws_subnet.private["eu-west-1c"].cidr_block == "10.0.32.0/20"
    error_message = "the subnets are others"
  }
}

run "a_zone_less_keeps_the_others" {
  variables {
    nat                = "per_az"
    availability_zones = ["eu-west-1a", "eu-west-1b"]
  }

  assert {
    condition     = output.private_subnets == slice(run.per_az_adds_to_single_and_moves_nothing.private_subnets, 0, 2) && aws_subnet.private["eu-west-1b"].cidr_block == "10.0.16.0/20"
    error_message = "the subnets of the remaining zones are others"
  }
}
