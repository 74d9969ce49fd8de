# The control plane: endpoint, encryption, logs, names, tags and timeouts.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  cluster_name    = "demo"
  vpc_id          = "vpc-0a"
  private_subnets = ["subnet-0a", "subnet-0b"]
}

run "the_defaults_make_a_cluster_with_its_own_key_and_profile" {
  assert {
    condition     = aws_eks_cluster.this.version == "1.33" && !aws_eks_cluster.this.bootstrap_self_managed_addons
    error_message = "version ${aws_eks_cluster.this.version}; self-managed addons are not ours to manage"
  }

  assert {
    condition     = one(aws_eks_cluster.this.access_config).authentication_mode == "API" && one(aws_eks_cluster.this.access_config).bootstrap_cluster_creator_admin_permissions
    error_message = "access entries are the only way in, and the creator has one"
  }

  assert {
    condition     = one(aws_eks_cluster.this.upgrade_policy).support_type == "EXTENDED"
    error_message = "the default of AWS is EXTENDED"
  }

  assert {
    condition     = aws_eks_cluster.this.vpc_config[0].subnet_ids == toset(["subnet-0a", "subnet-0b"])
    error_message = "only private subnets belong to the cluster"
  }

  assert {
    condition     = aws_eks_cluster.this.vpc_config[0].endpoint_public_access && aws_eks_cluster.this.vpc_config[0].endpoint_private_access
    error_message = "both endpoints are on by default"
  }

  assert {
    condition     = length(aws_cloudwatch_log_group.cluster) == 0 && length(aws_eks_cluster.this.enabled_cluster_log_types) == 0
    error_message = "no logs unless asked for"
  }

  assert {
    condition = (
      output.cluster_name == "demo"
      && output.cluster_arn == "arn:aws:eks:eu-west-1:111122223333:cluster/demo"
      && output.cluster_endpoint == "https://demo.example"
      && nonsensitive(output.cluster_certificate_authority_data) == "Q0E="
      && output.cluster_version == "1.33"
      && output.cluster_platform_version == "eks.1"
      && output.cluster_status == "ACTIVE"
      && output.oidc_provider == "oidc.example/id/DEMO"
      && output.oidc_provider_arn == "arn:aws:iam::111122223333:oidc-provider/oidc.example/id/DEMO"
      && output.cluster_primary_security_group_id == "sg-0a"
      && output.pod_execution_role_arn == "arn:aws:iam::111122223333:role/mock"
      && output.kms_key_arn == "arn:aws:kms:eu-west-1:111122223333:key/made-here"
    )
    error_message = "an output does not say what the cluster is"
  }

  assert {
    condition     = issensitive(output.cluster_certificate_authority_data)
    error_message = "the certificate is marked sensitive, as the contract of outputs asks"
  }

  assert {
    condition = output.fargate_profiles == {
      system = {
        arn      = "arn:aws:eks:eu-west-1:111122223333:fargateprofile/demo/system/1"
        status   = "ACTIVE"
        role_arn = "arn:aws:iam::111122223333:role/mock"
      }
    }
    error_message = "profiles: ${jsonencode(output.fargate_profiles)}"
  }
}

run "a_key_is_made_with_rotation_and_an_alias" {
  command = plan

  assert {
    condition     = aws_kms_key.cluster[0].enable_key_rotation && aws_kms_key.cluster[0].deletion_window_in_days == 30
    error_message = "the key must rotate, and a deletion must be recallable for a month"
  }

  assert {
    condition     = aws_kms_alias.cluster[0].name == "alias/eks/demo"
    error_message = "alias ${aws_kms_alias.cluster[0].name}"
  }

  assert {
    condition     = one(aws_eks_cluster.this.encryption_config).resources == toset(["secrets"])
    error_message = "secrets are what is encrypted"
  }
}

run "a_key_can_be_brought" {
  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/brought"
  }

  assert {
    condition     = length(aws_kms_key.cluster) + length(aws_kms_alias.cluster) == 0
    error_message = "no key is made beside the one that was brought"
  }

  assert {
    condition     = one(one(aws_eks_cluster.this.encryption_config).provider).key_arn == "arn:aws:kms:eu-west-1:111122223333:key/brought" && output.kms_key_arn == "arn:aws:kms:eu-west-1:111122223333:key/brought"
    error_message = "the cluster must use the key that was brought"
  }
}

run "encryption_can_be_off" {
  command = plan

  variables {
    encryption_enabled = false
  }

  assert {
    condition     = length(aws_kms_key.cluster) == 0 && length(aws_eks_cluster.this.encryption_config) == 0 && output.kms_key_arn == null
    error_message = "no encryption, no key"
  }
}

run "logs_go_to_a_group_with_a_retention" {
  command = plan

  variables {
    log_types          = ["audit", "api"]
    log_retention_days = 90
  }

  assert {
    condition     = aws_cloudwatch_log_group.cluster[0].name == "/aws/eks/demo/cluster" && aws_cloudwatch_log_group.cluster[0].retention_in_days == 90
    error_message = "the group must have the name that EKS writes to"
  }

  assert {
    condition     = aws_eks_cluster.this.enabled_cluster_log_types == toset(["api", "audit"])
    error_message = "log types of the cluster"
  }
}

run "the_log_group_comes_before_the_cluster_and_goes_after_it" {
  command = plan

  assert {
    condition     = can(regex("(?s)resource \"aws_eks_cluster\" \"this\" \\{.*?\n  depends_on = \\[[^]]*aws_cloudwatch_log_group\\.cluster,", file("${path.module}/main.tf")))
    error_message = "else EKS makes the group itself, without a retention"
  }

  assert {
    condition     = can(regex("(?s)resource \"aws_cloudwatch_log_group\" \"cluster\" \\{.*?\n    create_before_destroy = true", file("${path.module}/main.tf")))
    error_message = "else the group goes while EKS still writes to it, and is made again"
  }
}

run "a_restricted_public_endpoint_is_passed_on" {
  command = plan

  variables {
    endpoint_public_cidrs = ["203.0.113.0/24", "198.51.100.7/32"]
  }

  assert {
    condition     = aws_eks_cluster.this.vpc_config[0].public_access_cidrs == toset(["203.0.113.0/24", "198.51.100.7/32"])
    error_message = "public ranges"
  }
}

run "a_private_cluster_sends_no_public_ranges" {
  command = plan

  variables {
    endpoint_public_access = false
  }

  assert {
    condition     = !aws_eks_cluster.this.vpc_config[0].endpoint_public_access && aws_eks_cluster.this.vpc_config[0].endpoint_private_access
    error_message = "private endpoint only"
  }

  # The value must come from AWS: a configured one would be drift.
  assert {
    condition     = can(regex("public_access_cidrs += var.endpoint_public_access \\? var.endpoint_public_cidrs : null", file("${path.module}/main.tf")))
    error_message = "the ranges of an endpoint that is off belong to AWS"
  }
}

run "a_service_range_is_passed_on" {
  command = plan

  variables {
    service_ipv4_cidr = "172.20.0.0/16"
  }

  assert {
    condition     = one(aws_eks_cluster.this.kubernetes_network_config).service_ipv4_cidr == "172.20.0.0/16"
    error_message = "service range"
  }
}

run "standard_support_can_be_chosen" {
  command = plan

  variables {
    upgrade_support_type = "STANDARD"
  }

  assert {
    condition     = one(aws_eks_cluster.this.upgrade_policy).support_type == "STANDARD"
    error_message = "upgrade policy"
  }
}

run "timeouts_outlast_what_eks_needs" {
  command = plan

  variables {
    addons = [{ name = "coredns" }]
  }

  assert {
    condition     = aws_eks_cluster.this.timeouts.create == "45m" && aws_eks_cluster.this.timeouts.update == "90m" && aws_eks_cluster.this.timeouts.delete == "45m"
    error_message = "cluster: ${jsonencode(aws_eks_cluster.this.timeouts)}"
  }

  assert {
    condition     = aws_eks_fargate_profile.system[0].timeouts.create == "30m" && aws_eks_fargate_profile.system[0].timeouts.delete == "60m"
    error_message = "profile: ${jsonencode(aws_eks_fargate_profile.system[0].timeouts)}"
  }

  assert {
    condition     = aws_eks_addon.this["coredns"].timeouts.create == "30m" && aws_eks_addon.this["coredns"].timeouts.update == "30m" && aws_eks_addon.this["coredns"].timeouts.delete == "40m"
    error_message = "addon: ${jsonencode(aws_eks_addon.this["coredns"].timeouts)}"
  }
}

run "the_users_tags_are_on_everything" {
  command = plan

  variables {
    tags           = { team = "platform" }
    log_types      = ["api"]
    addons         = [{ name = "coredns" }]
    access_entries = [{ principal_arn = "arn:aws:iam::111122223333:role/admin" }]
  }

  assert {
    condition = alltrue([for tags in concat(
      [aws_eks_cluster.this.tags, aws_iam_role.cluster.tags, aws_iam_openid_connect_provider.cluster.tags],
      aws_kms_key.cluster[*].tags,
      aws_cloudwatch_log_group.cluster[*].tags,
      aws_iam_role.pod_execution[*].tags,
      aws_eks_fargate_profile.system[*].tags,
      values(aws_eks_addon.this)[*].tags,
      values(aws_eks_access_entry.this)[*].tags,
    ) : tags == tomap({ team = "platform" })])
    error_message = "a resource lacks the tags of the user"
  }
}

run "role_names_fit_and_tell_long_cluster_names_apart" {
  command = plan

  variables {
    cluster_name = "a-cluster-name-of-exactly-one-hundred-characters-0123456789-0123456789-0123456789-0123456789-0123456"
  }

  assert {
    condition     = length(var.cluster_name) == 100 && length(aws_iam_role.cluster.name) <= 64 && length(aws_iam_role.pod_execution[0].name) <= 64
    error_message = "IAM allows 64 characters: ${aws_iam_role.cluster.name}"
  }

  assert {
    condition     = aws_iam_role.cluster.name == "a-cluster-name-of-exactly-one-hundred-ch-${substr(sha256("eu-west-1/${var.cluster_name}"), 0, 8)}-eks-cluster"
    error_message = "role ${aws_iam_role.cluster.name}"
  }
}

run "the_same_cluster_name_in_another_region_has_other_roles" {
  command = plan

  override_data {
    target = data.aws_region.current
    values = { id = "us-east-1" }
  }

  assert {
    condition     = aws_iam_role.cluster.name == "demo-${substr(sha256("us-east-1/demo"), 0, 8)}-eks-cluster" && substr(sha256("us-east-1/demo"), 0, 8) != substr(sha256("eu-west-1/demo"), 0, 8)
    error_message = "role ${aws_iam_role.cluster.name}"
  }
}

run "the_cluster_role_trusts_eks_only" {
  command = plan

  assert {
    condition     = jsondecode(aws_iam_role.cluster.assume_role_policy).Statement[*].Principal.Service == ["eks.amazonaws.com"] && aws_iam_role_policy_attachment.cluster.policy_arn == "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
    error_message = "trust: ${aws_iam_role.cluster.assume_role_policy}"
  }
}

run "another_vpc_than_that_of_the_subnets_is_refused" {
  command = plan

  variables {
    vpc_id = "vpc-0b"
  }

  expect_failures = [output.cluster_arn]
}

run "c2_the_owner_is_a_tag_of_the_cluster_that_no_tag_of_a_user_replaces" {
  variables {
    owner = "6d1c0f2e-0000-4000-8000-00000000000a"
    tags  = { "capt.x-k8s.io/owner" = "somebody", team = "a" }
  }

  assert {
    condition     = aws_eks_cluster.this.tags == tomap({ "capt.x-k8s.io/owner" = "6d1c0f2e-0000-4000-8000-00000000000a", team = "a" })
    error_message = "the tags are ${jsonencode(aws_eks_cluster.this.tags)}"
  }
}

run "without_an_owner_there_is_no_tag" {
  variables {
    tags = { team = "a" }
  }

  assert {
    condition     = aws_eks_cluster.this.tags == tomap({ team = "a" })
    error_message = "the tags are ${jsonencode(aws_eks_cluster.this.tags)}"
  }
}
