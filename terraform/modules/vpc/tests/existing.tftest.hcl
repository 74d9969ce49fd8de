# An existing VPC: what is found in it, what is refused, and that nothing is made.
# subnet-0a (zone a) and subnet-0b (zone b) follow their own table without an internet route, subnet-0c
# has one, subnet-0d has no table of its own.

mock_provider "aws" {
  source = "./tests/mocks"

  mock_data "aws_vpc" {
    defaults = {
      id                   = "vpc-0e"
      cidr_block           = "10.9.0.0/16"
      enable_dns_support   = true
      enable_dns_hostnames = true
    }
  }

  mock_data "aws_subnets" {
    defaults = { ids = ["subnet-0d", "subnet-0c", "subnet-0b", "subnet-0a"] }
  }

  mock_data "aws_subnet" {
    defaults = {
      availability_zone          = "eu-west-1a"
      availability_zone_id       = "euw1-az1"
      available_ip_address_count = 200
      outpost_arn                = ""
    }
  }

  mock_data "aws_route_tables" {
    defaults = { ids = ["rtb-main", "rtb-private", "rtb-public"] }
  }
}

variables {
  name            = "demo"
  cluster_name    = "demo"
  existing_vpc_id = "vpc-0e"
}

override_data {
  target = data.aws_subnet.existing["subnet-0b"]
  values = {
    availability_zone          = "eu-west-1b"
    availability_zone_id       = "euw1-az2"
    available_ip_address_count = 200
    outpost_arn                = ""
  }
}

override_data {
  target = data.aws_route_table.existing["rtb-main"]
  values = {
    associations = [{ main = true, subnet_id = "", gateway_id = "", route_table_id = "rtb-main", route_table_association_id = "rtbassoc-0" }]
    routes       = []
  }
}

override_data {
  target = data.aws_route_table.existing["rtb-private"]
  values = {
    associations = [
      { main = false, subnet_id = "subnet-0a", gateway_id = "", route_table_id = "rtb-private", route_table_association_id = "rtbassoc-1" },
      { main = false, subnet_id = "subnet-0b", gateway_id = "", route_table_id = "rtb-private", route_table_association_id = "rtbassoc-2" },
    ]
    routes = []
  }
}

override_data {
  target = data.aws_route_table.existing["rtb-public"]
  values = {
    associations = [{ main = false, subnet_id = "subnet-0c", gateway_id = "", route_table_id = "rtb-public", route_table_association_id = "rtbassoc-3" }]
    routes = [{
      cidr_block                 = "0.0.0.0/0"
      gateway_id                 = "igw-0"
      carrier_gateway_id         = ""
      core_network_arn           = ""
      destination_prefix_list_id = ""
      egress_only_gateway_id     = ""
      instance_id                = ""
      ipv6_cidr_block            = ""
      local_gateway_id           = ""
      nat_gateway_id             = ""
      network_interface_id       = ""
      transit_gateway_id         = ""
      vpc_endpoint_id            = ""
      vpc_peering_connection_id  = ""
    }]
  }
}

run "flow_logs_of_an_existing_vpc_are_refused" {
  command = plan

  variables {
    flow_logs_enabled = true
  }

  expect_failures = [var.flow_logs_enabled]
}

run "subnet_ids_that_are_none_are_refused" {
  command = plan

  variables {
    existing_private_subnet_ids = ["a"]
    existing_public_subnet_ids  = ["b"]
  }

  expect_failures = [var.existing_private_subnet_ids, var.existing_public_subnet_ids]
}

run "the_same_subnet_twice_is_refused" {
  command = plan

  variables {
    existing_private_subnet_ids = ["subnet-0a", "subnet-0a"]
    existing_public_subnet_ids  = ["subnet-0b", "subnet-0b"]
  }

  expect_failures = [var.existing_private_subnet_ids, var.existing_public_subnet_ids]
}

run "named_subnets_must_be_in_two_zones" {
  command = plan

  variables {
    existing_private_subnet_ids = ["subnet-0a", "subnet-0d"]
  }

  expect_failures = [output.private_subnets]
}

run "a_public_subnet_is_refused_as_private" {
  command = plan

  variables {
    existing_private_subnet_ids = ["subnet-0b", "subnet-0c"]
  }

  expect_failures = [output.private_subnets]
}

run "a_subnet_of_another_vpc_is_refused" {
  command = plan

  variables {
    existing_private_subnet_ids = ["subnet-0a", "subnet-0b", "subnet-0f"]
  }

  expect_failures = [output.private_subnets]
}

run "a_vpc_of_public_subnets_only_is_refused" {
  command = plan

  override_data {
    target = data.aws_subnets.existing
    values = { ids = ["subnet-0c"] }
  }

  expect_failures = [output.private_subnets]
}

run "a_vpc_that_is_not_there_is_refused" {
  command = plan

  override_data {
    target = data.aws_subnets.existing
    values = { ids = [] }
  }

  override_data {
    target = data.aws_route_tables.existing
    values = { ids = [] }
  }

  expect_failures = [output.private_subnets]
}

run "a_vpc_without_dns_hostnames_is_refused" {
  command = plan

  override_data {
    target = data.aws_vpc.existing
    values = {
      id                   = "vpc-0e"
      enable_dns_support   = true
      enable_dns_hostnames = false
    }
  }

  expect_failures = [data.aws_vpc.existing]
}

run "a_subnet_in_a_local_zone_is_refused_by_name" {
  command = plan

  variables {
    existing_private_subnet_ids = ["subnet-0a", "subnet-0b", "subnet-0d"]
  }

  override_data {
    target = data.aws_subnet.existing["subnet-0d"]
    values = {
      availability_zone          = "us-east-1-bos-1a"
      availability_zone_id       = "use1-bos1-az1"
      available_ip_address_count = 200
      outpost_arn                = ""
    }
  }

  expect_failures = [output.private_subnets]
}

run "few_free_addresses_are_a_warning" {
  command = plan

  override_data {
    target = data.aws_subnet.existing["subnet-0a"]
    values = {
      availability_zone          = "eu-west-1a"
      availability_zone_id       = "euw1-az1"
      available_ip_address_count = 5
      outpost_arn                = ""
    }
  }

  expect_failures = [check.free_addresses]
}

run "zones_that_eks_cannot_use_are_left_out" {
  command = plan

  override_data {
    target = data.aws_subnet.existing["subnet-0d"]
    values = {
      availability_zone          = "us-east-1e"
      availability_zone_id       = "use1-az3"
      available_ip_address_count = 200
      outpost_arn                = ""
    }
  }

  assert {
    condition     = join(",", output.private_subnets) == "subnet-0a,subnet-0b"
    error_message = "found ${join(",", output.private_subnets)}"
  }
}

run "subnets_are_found_by_their_routes" {
  assert {
    condition     = join(",", output.private_subnets) == "subnet-0a,subnet-0b,subnet-0d"
    error_message = "private: ${join(",", output.private_subnets)}"
  }

  assert {
    condition     = join(",", output.public_subnets) == "subnet-0c"
    error_message = "public: ${join(",", output.public_subnets)}"
  }

  assert {
    condition     = output.vpc_id == "vpc-0e" && output.vpc_cidr == "10.9.0.0/16" && join(",", output.azs) == "eu-west-1a,eu-west-1b" && length(output.natgw_ids) == 0
    error_message = "${output.vpc_id} ${output.vpc_cidr} ${join(",", output.azs)}"
  }

  assert {
    condition = (
      length(aws_vpc.this) + length(aws_subnet.private) + length(aws_subnet.public) + length(aws_internet_gateway.this)
      + length(aws_route_table.public) + length(aws_route_table.private) + length(aws_nat_gateway.this) + length(aws_eip.nat)
      + length(aws_route.nat) + length(aws_route.internet) + length(terraform_data.zones)
    ) == 0
    error_message = "nothing may be made in an existing VPC"
  }
}

run "a_subnet_that_somebody_adds_later_changes_nothing" {
  command = plan

  override_data {
    target = data.aws_subnets.existing
    values = { ids = ["subnet-00", "subnet-0a", "subnet-0b", "subnet-0c", "subnet-0d"] }
  }

  assert {
    condition     = join(",", output.private_subnets) == "subnet-0a,subnet-0b,subnet-0d"
    error_message = "private: ${join(",", output.private_subnets)}"
  }
}

run "named_subnets_win_over_the_remembered_ones" {
  command = plan

  variables {
    existing_private_subnet_ids = ["subnet-0d", "subnet-0b"]
    existing_public_subnet_ids  = ["subnet-0c"]
  }

  assert {
    condition     = join(",", output.private_subnets) == "subnet-0d,subnet-0b" && join(",", output.public_subnets) == "subnet-0c"
    error_message = "private: ${join(",", output.private_subnets)}, public: ${join(",", output.public_subnets)}"
  }
}

run "a_main_table_with_an_internet_route_makes_its_subnets_public" {
  command = plan

  variables {
    existing_vpc_id = "vpc-0f"
  }

  override_data {
    target = data.aws_route_table.existing["rtb-main"]
    values = {
      associations = [{ main = true, subnet_id = "", gateway_id = "", route_table_id = "rtb-main", route_table_association_id = "rtbassoc-0" }]
      routes = [{
        cidr_block                 = ""
        gateway_id                 = "igw-0"
        carrier_gateway_id         = ""
        core_network_arn           = ""
        destination_prefix_list_id = ""
        egress_only_gateway_id     = ""
        instance_id                = ""
        ipv6_cidr_block            = "::/0"
        local_gateway_id           = ""
        nat_gateway_id             = ""
        network_interface_id       = ""
        transit_gateway_id         = ""
        vpc_endpoint_id            = ""
        vpc_peering_connection_id  = ""
      }]
    }
  }

  assert {
    condition     = join(",", output.private_subnets) == "subnet-0a,subnet-0b" && join(",", output.public_subnets) == "subnet-0c,subnet-0d"
    error_message = "private: ${join(",", output.private_subnets)}, public: ${join(",", output.public_subnets)}"
  }
}
