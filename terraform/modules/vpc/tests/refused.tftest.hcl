# Input that is refused before anything is planned.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  name         = "demo"
  cluster_name = "demo"
}

run "a_cidr_that_is_none_is_refused" {
  command = plan

  variables {
    cidr = "ten"
  }

  expect_failures = [var.cidr]
}

run "a_range_larger_than_16_bits_is_refused" {
  command = plan

  variables {
    cidr = "10.0.0.0/15"
  }

  expect_failures = [var.cidr]
}

run "a_range_smaller_than_24_bits_is_refused" {
  command = plan

  variables {
    cidr = "10.0.0.0/25"
  }

  expect_failures = [var.cidr]
}

run "a_range_with_host_bits_is_refused" {
  command = plan

  variables {
    cidr = "10.0.1.0/16"
  }

  expect_failures = [var.cidr]
}

run "an_address_out_of_range_is_refused" {
  command = plan

  variables {
    cidr = "10.0.256.0/24"
  }

  expect_failures = [var.cidr]
}

run "an_ipv6_range_is_refused" {
  command = plan

  variables {
    cidr = "fd00::/24"
  }

  expect_failures = [var.cidr]
}

run "one_zone_is_refused" {
  command = plan

  variables {
    availability_zones = ["eu-west-1a"]
  }

  expect_failures = [var.availability_zones]
}

run "four_zones_are_refused" {
  command = plan

  variables {
    availability_zones = ["eu-west-1a", "eu-west-1b", "eu-west-1c", "eu-west-1d"]
  }

  expect_failures = [var.availability_zones]
}

run "the_same_zone_twice_is_refused" {
  command = plan

  variables {
    availability_zones = ["eu-west-1a", "eu-west-1a"]
  }

  expect_failures = [var.availability_zones]
}

run "a_zone_id_is_refused" {
  command = plan

  variables {
    availability_zones = ["euw1-az1", "euw1-az2"]
  }

  expect_failures = [var.availability_zones]
}

run "a_local_zone_is_refused" {
  command = plan

  variables {
    availability_zones = ["us-east-1a", "us-east-1-bos-1a"]
  }

  expect_failures = [var.availability_zones]
}

run "a_count_of_one_zone_is_refused" {
  command = plan

  variables {
    az_count = 1
  }

  expect_failures = [var.az_count]
}

run "a_count_of_four_zones_is_refused" {
  command = plan

  variables {
    az_count = 4
  }

  expect_failures = [var.az_count]
}

run "an_unknown_nat_mode_is_refused" {
  command = plan

  variables {
    nat = "PerAZ"
  }

  expect_failures = [var.nat]
}

run "a_retention_that_cloudwatch_lacks_is_refused" {
  command = plan

  variables {
    flow_logs_retention_days = 31
  }

  expect_failures = [var.flow_logs_retention_days]
}

run "a_vpc_id_that_is_none_is_refused" {
  command = plan

  variables {
    existing_vpc_id = "my-vpc"
  }

  expect_failures = [var.existing_vpc_id]
}

run "subnets_without_their_vpc_are_refused" {
  command = plan

  variables {
    existing_private_subnet_ids = ["subnet-0a"]
    existing_public_subnet_ids  = ["subnet-0b"]
  }

  expect_failures = [var.existing_private_subnet_ids, var.existing_public_subnet_ids]
}

run "a_tag_that_aws_keeps_for_itself_is_refused" {
  command = plan

  variables {
    tags = { "aws:team" = "a" }
  }

  expect_failures = [var.tags]
}

run "too_many_tags_are_refused" {
  command = plan

  variables {
    tags = { for number in range(46) : "tag${number}" => "a" }
  }

  expect_failures = [var.tags]
}

run "a_name_that_starts_with_a_dash_is_refused" {
  command = plan

  variables {
    name         = "-demo"
    cluster_name = "-demo"
  }

  expect_failures = [var.name, var.cluster_name]
}

run "a_region_with_too_few_zones_is_refused" {
  command = plan

  override_data {
    target = data.aws_availability_zones.region
    values = { names = ["us-west-1a", "us-west-1c"] }
  }

  expect_failures = [terraform_data.zones]
}

run "zones_of_the_other_partitions_are_accepted" {
  command = plan

  variables {
    availability_zones = ["us-gov-west-1a", "us-gov-west-1b"]
  }

  assert {
    condition     = length(aws_subnet.private) == 2
    error_message = "zones of GovCloud"
  }
}

run "zones_of_the_iso_partitions_are_accepted" {
  command = plan

  variables {
    availability_zones = ["us-isob-east-1a", "us-isob-east-1b"]
  }

  assert {
    condition     = length(aws_subnet.private) == 2
    error_message = "zones of an isolated partition"
  }
}
