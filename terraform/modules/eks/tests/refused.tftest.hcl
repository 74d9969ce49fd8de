# Input that is refused before anything is planned.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  cluster_name    = "demo"
  vpc_id          = "vpc-0a"
  private_subnets = ["subnet-0a", "subnet-0b"]
}

run "a_cluster_name_with_a_dot_is_refused" {
  command = plan

  variables {
    cluster_name = "my.cluster"
  }

  expect_failures = [var.cluster_name]
}

run "a_version_with_a_v_is_refused" {
  command = plan

  variables {
    kubernetes_version = "v1.33"
  }

  expect_failures = [var.kubernetes_version]
}

run "a_version_with_a_patch_is_refused" {
  command = plan

  variables {
    kubernetes_version = "1.33.2"
  }

  expect_failures = [var.kubernetes_version]
}

run "latest_is_no_version" {
  command = plan

  variables {
    kubernetes_version = "latest"
    addons             = [{ name = "coredns", version = "latest" }]
  }

  expect_failures = [var.kubernetes_version, var.addons]
}

run "ids_that_are_none_are_refused" {
  command = plan

  variables {
    vpc_id          = "my-vpc"
    private_subnets = ["a", "b"]
  }

  expect_failures = [var.vpc_id, var.private_subnets]
}

run "one_subnet_is_refused" {
  command = plan

  variables {
    private_subnets = ["subnet-0a", "subnet-0a"]
  }

  expect_failures = [var.private_subnets]
}

run "a_cluster_without_an_endpoint_is_refused" {
  command = plan

  variables {
    endpoint_public_access  = false
    endpoint_private_access = false
  }

  expect_failures = [var.endpoint_private_access]
}

run "a_restricted_public_endpoint_needs_the_private_one" {
  command = plan

  variables {
    endpoint_private_access = false
    endpoint_public_cidrs   = ["203.0.113.0/24"]
  }

  expect_failures = [var.endpoint_public_cidrs]
}

run "a_public_range_that_is_none_is_refused" {
  command = plan

  variables {
    endpoint_public_cidrs = ["everywhere"]
  }

  expect_failures = [var.endpoint_public_cidrs]
}

run "a_public_range_with_host_bits_is_refused" {
  command = plan

  variables {
    endpoint_public_cidrs = ["203.0.113.7/24"]
  }

  expect_failures = [var.endpoint_public_cidrs]
}

run "no_public_range_is_refused" {
  command = plan

  variables {
    endpoint_public_cidrs = []
  }

  expect_failures = [var.endpoint_public_cidrs]
}

run "the_same_principal_twice_is_refused" {
  command = plan

  variables {
    access_entries = [{ principal_arn = "arn:aws:iam::111122223333:role/a" }, { principal_arn = "arn:aws:iam::111122223333:role/a" }]
  }

  expect_failures = [var.access_entries]
}

run "a_session_is_no_principal" {
  command = plan

  variables {
    access_entries = [{ principal_arn = "arn:aws:sts::111122223333:assumed-role/a/b" }]
  }

  expect_failures = [var.access_entries]
}

run "an_unknown_entry_type_is_refused" {
  command = plan

  variables {
    access_entries = [{ principal_arn = "arn:aws:iam::111122223333:role/a", type = "HYBRID" }]
  }

  expect_failures = [var.access_entries]
}

run "groups_of_a_node_entry_are_refused" {
  command = plan

  variables {
    access_entries = [{ principal_arn = "arn:aws:iam::111122223333:role/a", type = "EC2_LINUX", kubernetes_groups = ["a"] }]
  }

  expect_failures = [var.access_entries]
}

run "system_groups_are_refused" {
  command = plan

  variables {
    access_entries = [{ principal_arn = "arn:aws:iam::111122223333:role/a", kubernetes_groups = ["system:masters"] }]
  }

  expect_failures = [var.access_entries]
}

run "an_iam_policy_is_no_access_policy" {
  command = plan

  variables {
    access_entries = [{ principal_arn = "arn:aws:iam::111122223333:role/a", policies = [{ policy_arn = "arn:aws:iam::aws:policy/AdministratorAccess" }] }]
  }

  expect_failures = [var.access_entries]
}

run "the_same_policy_twice_is_refused" {
  command = plan

  variables {
    access_entries = [{ principal_arn = "arn:aws:iam::111122223333:role/a", policies = [{ policy_arn = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy" }, { policy_arn = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy" }] }]
  }

  expect_failures = [var.access_entries]
}

run "a_namespace_scope_without_namespaces_is_refused" {
  command = plan

  variables {
    access_entries = [{ principal_arn = "arn:aws:iam::111122223333:role/a", policies = [{ policy_arn = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy", scope_type = "namespace" }] }]
  }

  expect_failures = [var.access_entries]
}

run "a_cluster_scope_with_namespaces_is_refused" {
  command = plan

  variables {
    access_entries = [{ principal_arn = "arn:aws:iam::111122223333:role/a", policies = [{ policy_arn = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy", namespaces = ["a"] }] }]
  }

  expect_failures = [var.access_entries]
}

run "an_alias_is_no_key" {
  command = plan

  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:alias/eks"
  }

  expect_failures = [var.kms_key_arn]
}

run "a_key_without_encryption_is_refused" {
  command = plan

  variables {
    encryption_enabled = false
    kms_key_arn        = "arn:aws:kms:eu-west-1:111122223333:key/a"
  }

  expect_failures = [var.kms_key_arn]
}

run "an_unknown_log_type_is_refused" {
  command = plan

  variables {
    log_types = ["kubelet"]
  }

  expect_failures = [var.log_types]
}

run "a_retention_that_cloudwatch_lacks_is_refused" {
  command = plan

  variables {
    log_retention_days = 31
  }

  expect_failures = [var.log_retention_days]
}

run "the_same_addon_twice_is_refused" {
  command = plan

  variables {
    addons = [{ name = "coredns" }, { name = "coredns" }]
  }

  expect_failures = [var.addons]
}

run "an_addon_without_a_name_is_refused" {
  command = plan

  variables {
    addons = [{ name = "" }]
  }

  expect_failures = [var.addons]
}

run "addon_configuration_that_is_no_json_is_refused" {
  command = plan

  variables {
    addons = [{ name = "coredns", configuration_values = "replicas: 2" }]
  }

  expect_failures = [var.addons]
}

run "addon_configuration_that_is_no_object_is_refused" {
  command = plan

  variables {
    addons = [{ name = "coredns", configuration_values = "[1]" }]
  }

  expect_failures = [var.addons]
}

run "an_addon_role_that_is_none_is_refused" {
  command = plan

  variables {
    addons = [{ name = "vpc-cni", service_account_role_arn = "cni" }]
  }

  expect_failures = [var.addons]
}

run "an_unknown_support_type_is_refused" {
  command = plan

  variables {
    upgrade_support_type = "extended"
  }

  expect_failures = [var.upgrade_support_type]
}

run "a_public_service_range_is_refused" {
  command = plan

  variables {
    service_ipv4_cidr = "8.8.0.0/16"
  }

  expect_failures = [var.service_ipv4_cidr]
}

run "a_service_range_that_is_too_small_is_refused" {
  command = plan

  variables {
    service_ipv4_cidr = "172.20.0.0/25"
  }

  expect_failures = [var.service_ipv4_cidr]
}

run "a_pod_role_with_a_path_is_refused" {
  command = plan

  variables {
    pod_execution_role_arn = "arn:aws:iam::111122223333:role/team/pods"
  }

  expect_failures = [var.pod_execution_role_arn]
}

run "a_tag_that_aws_keeps_for_itself_is_refused" {
  command = plan

  variables {
    tags = { "aws:team" = "a" }
  }

  expect_failures = [var.tags]
}

run "a_tag_value_that_is_too_long_is_refused" {
  command = plan

  variables {
    tags = { team = join("", [for number in range(257) : "a"]) }
  }

  expect_failures = [var.tags]
}
