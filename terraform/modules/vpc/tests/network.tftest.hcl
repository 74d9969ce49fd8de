# What is made for a new VPC: the address plan, the zones, tags and flow logs.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  name         = "demo"
  cluster_name = "demo-eks"
}

run "a_large_range_is_split_like_upstream" {
  command = plan

  assert {
    condition = local.private_cidrs == {
      "eu-west-1a" = "10.0.0.0/20"
      "eu-west-1b" = "10.0.16.0/20"
      "eu-west-1c" = "10.0.32.0/20"
    }
    error_message = "private subnets of 10.0.0.0/16: ${jsonencode(local.private_cidrs)}"
  }

  assert {
    condition = local.public_cidrs == {
      "eu-west-1a" = "10.0.48.0/24"
      "eu-west-1b" = "10.0.49.0/24"
      "eu-west-1c" = "10.0.50.0/24"
    }
    error_message = "public subnets of 10.0.0.0/16: ${jsonencode(local.public_cidrs)}"
  }

  assert {
    condition     = alltrue([for zone, subnet in aws_subnet.private : subnet.cidr_block == local.private_cidrs[zone] && subnet.availability_zone == zone])
    error_message = "a private subnet is not where the address plan puts it"
  }
}

run "the_dns_flags_are_on" {
  command = plan

  assert {
    condition     = aws_vpc.this[0].enable_dns_support && aws_vpc.this[0].enable_dns_hostnames
    error_message = "EKS needs DNS support and DNS hostnames"
  }
}

run "no_subnet_gives_public_addresses_to_machines" {
  command = plan

  assert {
    condition     = !anytrue([for subnet in concat(values(aws_subnet.private), values(aws_subnet.public)) : subnet.map_public_ip_on_launch])
    error_message = "map_public_ip_on_launch must be off"
  }
}

run "subnets_carry_the_tags_that_kubernetes_reads" {
  command = plan

  variables {
    tags = {
      team                     = "platform"
      "kubernetes.io/role/elb" = "0"
    }
  }

  assert {
    condition = alltrue([for zone, subnet in aws_subnet.public : subnet.tags == tomap({
      Name                             = "demo-public-${zone}"
      team                             = "platform"
      "kubernetes.io/role/elb"         = "1"
      "kubernetes.io/cluster/demo-eks" = "shared"
    })])
    error_message = "tags of the public subnets: ${jsonencode(values(aws_subnet.public)[*].tags)}"
  }

  assert {
    condition = alltrue([for subnet in aws_subnet.private :
      subnet.tags["kubernetes.io/role/internal-elb"] == "1"
      && subnet.tags["kubernetes.io/cluster/demo-eks"] == "shared"
      && subnet.tags["karpenter.sh/discovery"] == "demo-eks"
    ])
    error_message = "tags of the private subnets: ${jsonencode(values(aws_subnet.private)[*].tags)}"
  }
}

run "the_users_tags_are_on_everything" {
  command = plan

  variables {
    flow_logs_enabled = true
    tags              = { team = "platform" }
  }

  assert {
    condition = alltrue([for tags in concat(
      aws_vpc.this[*].tags,
      aws_internet_gateway.this[*].tags,
      aws_route_table.public[*].tags,
      values(aws_route_table.private)[*].tags,
      values(aws_subnet.private)[*].tags,
      values(aws_subnet.public)[*].tags,
      values(aws_eip.nat)[*].tags,
      values(aws_nat_gateway.this)[*].tags,
      aws_flow_log.this[*].tags,
      aws_iam_role.flow_logs[*].tags,
      aws_cloudwatch_log_group.flow_logs[*].tags,
    ) : tags["team"] == "platform" && length(tags["Name"]) > 0])
    error_message = "a resource lacks the tags of the user or a name"
  }
}

run "two_zones_are_the_first_two_by_name" {
  command = plan

  variables {
    az_count = 2
  }

  assert {
    condition     = join(",", output.azs) == "eu-west-1a,eu-west-1b"
    error_message = "zones: ${join(",", output.azs)}"
  }

  assert {
    condition     = length(aws_subnet.private) == 2 && length(aws_subnet.public) == 2
    error_message = "one private and one public subnet a zone"
  }
}

run "named_zones_keep_their_order_and_ask_for_no_list" {
  command = plan

  variables {
    availability_zones = ["eu-west-1c", "eu-west-1a"]
  }

  assert {
    condition     = local.private_cidrs == { "eu-west-1c" = "10.0.0.0/20", "eu-west-1a" = "10.0.16.0/20" }
    error_message = "address plan: ${jsonencode(local.private_cidrs)}"
  }

  assert {
    condition     = length(data.aws_availability_zones.region) == 0 && length(terraform_data.zones) == 0
    error_message = "explicit zones need no question to AWS"
  }
}

run "the_smallest_range_still_holds_subnets_that_aws_allows" {
  command = plan

  variables {
    cidr = "192.168.7.0/24"
  }

  assert {
    condition     = join(" ", values(local.private_cidrs)) == "192.168.7.0/26 192.168.7.64/26 192.168.7.128/26"
    error_message = "private: ${join(" ", values(local.private_cidrs))}"
  }

  assert {
    condition     = join(" ", values(local.public_cidrs)) == "192.168.7.192/28 192.168.7.208/28 192.168.7.224/28"
    error_message = "public: ${join(" ", values(local.public_cidrs))}"
  }
}

run "a_range_of_20_bits_is_the_last_to_be_split_in_sixteenths" {
  command = plan

  variables {
    cidr = "172.16.64.0/20"
  }

  assert {
    condition = (
      join(" ", values(local.private_cidrs)) == "172.16.64.0/24 172.16.65.0/24 172.16.66.0/24"
      && join(" ", values(local.public_cidrs)) == "172.16.67.0/28 172.16.67.16/28 172.16.67.32/28"
    )
    error_message = "${join(" ", values(local.private_cidrs))} ${join(" ", values(local.public_cidrs))}"
  }
}

run "a_range_of_21_bits_is_split_in_quarters" {
  command = plan

  variables {
    cidr = "172.16.64.0/21"
  }

  assert {
    condition = (
      join(" ", values(local.private_cidrs)) == "172.16.64.0/23 172.16.66.0/23 172.16.68.0/23"
      && join(" ", values(local.public_cidrs)) == "172.16.70.0/25 172.16.70.128/25 172.16.71.0/25"
    )
    error_message = "${join(" ", values(local.private_cidrs))} ${join(" ", values(local.public_cidrs))}"
  }
}

run "flow_logs_are_off_unless_asked_for" {
  command = plan

  assert {
    condition     = length(aws_flow_log.this) + length(aws_iam_role.flow_logs) + length(aws_cloudwatch_log_group.flow_logs) == 0
    error_message = "flow logs were not asked for"
  }
}

run "flow_logs_go_to_a_group_and_role_named_after_the_vpc" {
  variables {
    name                     = "a-name-that-is-much-longer-than-thirty-characters"
    flow_logs_enabled        = true
    flow_logs_retention_days = 7
  }

  assert {
    condition     = aws_cloudwatch_log_group.flow_logs[0].retention_in_days == 7 && aws_cloudwatch_log_group.flow_logs[0].name == "/aws/vpc-flow-logs/vpc-0aaaaaaaaaaaaaaaa"
    error_message = "log group ${aws_cloudwatch_log_group.flow_logs[0].name}"
  }

  assert {
    condition     = aws_iam_role.flow_logs[0].name == "a-name-that-is-much-longer-tha-vpc-0aaaaaaaaaaaaaaaa-flow-logs" && length(aws_iam_role.flow_logs[0].name) <= 64
    error_message = "role ${aws_iam_role.flow_logs[0].name}"
  }

  assert {
    condition     = jsondecode(aws_iam_role.flow_logs[0].assume_role_policy).Statement[0].Condition.ArnLike["aws:SourceArn"] == "arn:aws:ec2:eu-west-1:111122223333:vpc-flow-log/*"
    error_message = "trust: ${aws_iam_role.flow_logs[0].assume_role_policy}"
  }

  assert {
    condition     = aws_flow_log.this[0].traffic_type == "ALL" && aws_flow_log.this[0].log_destination == aws_cloudwatch_log_group.flow_logs[0].arn
    error_message = "the flow log must write all traffic to the log group"
  }
}

run "the_var_file_text_parses_as_what_it_says" {
  variables {
    az_count = 2
  }

  assert {
    condition     = strcontains(nonsensitive(output.vpc_config), "vpc_id          = \"vpc-0aaaaaaaaaaaaaaaa\"\n")
    error_message = "vpc_config: ${nonsensitive(output.vpc_config)}"
  }

  assert {
    condition     = strcontains(nonsensitive(output.vpc_config), "private_subnets = ${jsonencode(output.private_subnets)}\n") && strcontains(nonsensitive(output.vpc_config), "public_subnets  = ${jsonencode(output.public_subnets)}\n")
    error_message = "vpc_config: ${nonsensitive(output.vpc_config)}"
  }

  assert {
    condition     = issensitive(output.vpc_config)
    error_message = "vpc_config must be sensitive"
  }
}
