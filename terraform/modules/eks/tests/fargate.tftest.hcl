# Fargate in the cluster: the pod execution role, the system profile, and CoreDNS on it.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  cluster_name    = "demo"
  vpc_id          = "vpc-0a"
  private_subnets = ["subnet-0a", "subnet-0b"]
}

run "the_role_trusts_fargate_for_profiles_of_this_cluster_only" {
  command = plan

  assert {
    condition = jsondecode(aws_iam_role.pod_execution[0].assume_role_policy).Statement == [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "eks-fargate-pods.amazonaws.com" }
      Condition = { ArnLike = { "aws:SourceArn" = "arn:aws:eks:eu-west-1:111122223333:fargateprofile/demo/*" } }
    }]
    error_message = "trust: ${aws_iam_role.pod_execution[0].assume_role_policy}"
  }

  assert {
    condition     = aws_iam_role.pod_execution[0].path == "/" && aws_iam_role_policy_attachment.pod_execution[0].policy_arn == "arn:aws:iam::aws:policy/AmazonEKSFargatePodExecutionRolePolicy"
    error_message = "path ${aws_iam_role.pod_execution[0].path}, policy ${aws_iam_role_policy_attachment.pod_execution[0].policy_arn}"
  }

  assert {
    condition     = aws_iam_role.pod_execution[0].name != aws_iam_role.cluster.name && length(aws_iam_role.pod_execution) == 1
    error_message = "one role for the pods, and never the role of the cluster"
  }
}

run "other_partitions_have_their_own_arns" {
  command = plan

  override_data {
    target = data.aws_partition.current
    values = { partition = "aws-us-gov" }
  }

  override_data {
    target = data.aws_region.current
    values = { id = "us-gov-west-1" }
  }

  assert {
    condition     = jsondecode(aws_iam_role.pod_execution[0].assume_role_policy).Statement[0].Condition.ArnLike["aws:SourceArn"] == "arn:aws-us-gov:eks:us-gov-west-1:111122223333:fargateprofile/demo/*"
    error_message = "trust: ${aws_iam_role.pod_execution[0].assume_role_policy}"
  }

  assert {
    condition     = aws_iam_role_policy_attachment.pod_execution[0].policy_arn == "arn:aws-us-gov:iam::aws:policy/AmazonEKSFargatePodExecutionRolePolicy"
    error_message = "policy ${aws_iam_role_policy_attachment.pod_execution[0].policy_arn}"
  }
}

run "a_role_can_be_brought" {
  command = plan

  variables {
    pod_execution_role_arn = "arn:aws:iam::111122223333:role/pods"
  }

  assert {
    condition     = length(aws_iam_role.pod_execution) + length(aws_iam_role_policy_attachment.pod_execution) == 0
    error_message = "no role is made beside the one that was brought"
  }

  assert {
    condition     = aws_eks_fargate_profile.system[0].pod_execution_role_arn == "arn:aws:iam::111122223333:role/pods" && output.pod_execution_role_arn == "arn:aws:iam::111122223333:role/pods"
    error_message = "the profile must use the role that was brought"
  }
}

run "the_system_profile_matches_coredns_by_label" {
  command = plan

  assert {
    condition     = aws_eks_fargate_profile.system[0].fargate_profile_name == "system" && aws_eks_fargate_profile.system[0].subnet_ids == toset(["subnet-0a", "subnet-0b"])
    error_message = "profile ${aws_eks_fargate_profile.system[0].fargate_profile_name}"
  }

  assert {
    condition     = one(aws_eks_fargate_profile.system[0].selector).namespace == "kube-system" && one(aws_eks_fargate_profile.system[0].selector).labels == tomap({ "k8s-app" = "kube-dns" })
    error_message = "the label must stand in labels, else all of kube-system runs on Fargate"
  }
}

run "coredns_runs_on_fargate_and_keeps_its_configuration" {
  command = plan

  variables {
    addons = [
      { name = "coredns", configuration_values = "{\"replicaCount\":3,\"computeType\":\"EC2\"}" },
      { name = "kube-proxy", configuration_values = "{ \"mode\": \"iptables\" }" },
      { name = "vpc-cni" },
    ]
  }

  assert {
    condition     = aws_eks_addon.this["coredns"].configuration_values == "{\"computeType\":\"Fargate\",\"replicaCount\":3}"
    error_message = "coredns: ${aws_eks_addon.this["coredns"].configuration_values}"
  }

  assert {
    condition     = aws_eks_addon.this["kube-proxy"].configuration_values == "{ \"mode\": \"iptables\" }"
    error_message = "the text of other addons is passed on unchanged: ${aws_eks_addon.this["kube-proxy"].configuration_values}"
  }
}

run "coredns_without_configuration_runs_on_fargate" {
  command = plan

  variables {
    addons = [{ name = "coredns" }]
  }

  assert {
    condition     = aws_eks_addon.this["coredns"].configuration_values == "{\"computeType\":\"Fargate\"}"
    error_message = "coredns: ${aws_eks_addon.this["coredns"].configuration_values}"
  }
}

run "without_the_system_profile_coredns_is_left_as_it_is" {
  command = plan

  variables {
    system_profile = false
    addons         = [{ name = "coredns", configuration_values = "{\"replicaCount\":3}" }]
  }

  assert {
    condition     = length(aws_eks_fargate_profile.system) == 0 && length(output.fargate_profiles) == 0
    error_message = "no profile was asked for"
  }

  assert {
    condition     = aws_eks_addon.this["coredns"].configuration_values == "{\"replicaCount\":3}"
    error_message = "coredns: ${aws_eks_addon.this["coredns"].configuration_values}"
  }

  assert {
    condition     = length(aws_iam_role.pod_execution) == 1
    error_message = "the role serves the additional profiles too"
  }
}

run "addons_come_after_the_profile_and_the_access_entries" {
  command = plan

  assert {
    condition = alltrue([for first in ["aws_eks_fargate_profile.system", "aws_eks_access_entry.this", "aws_eks_access_policy_association.this"] :
      can(regex("(?s)resource \"aws_eks_addon\" \"this\" \\{.*?\n  depends_on = \\[[^]]*${replace(first, ".", "\\.")},", file("${path.module}/addons.tf")))
    ])
    error_message = "CoreDNS waits for its pods, and those for the profile"
  }

  assert {
    condition     = can(regex("(?s)resource \"aws_eks_access_entry\" \"this\" \\{.*?\n  depends_on = \\[aws_eks_fargate_profile\\.system\\]", file("${path.module}/access.tf")))
    error_message = "EKS refuses to make a profile while access entries change"
  }

  assert {
    condition     = can(regex("(?s)resource \"aws_eks_fargate_profile\" \"system\" \\{.*?\n  depends_on = \\[aws_iam_role_policy_attachment\\.pod_execution\\]", file("${path.module}/fargate.tf")))
    error_message = "the role must be complete as long as the profile exists"
  }
}

run "addon_versions_are_pinned_or_left_to_aws" {
  command = plan

  variables {
    addons = [{ name = "coredns", version = "v1.11.4-eksbuild.2", service_account_role_arn = "arn:aws:iam::111122223333:role/dns" }]
  }

  assert {
    condition     = aws_eks_addon.this["coredns"].addon_version == "v1.11.4-eksbuild.2" && aws_eks_addon.this["coredns"].service_account_role_arn == "arn:aws:iam::111122223333:role/dns"
    error_message = "coredns ${aws_eks_addon.this["coredns"].addon_version}"
  }

  assert {
    condition     = aws_eks_addon.this["coredns"].resolve_conflicts_on_create == "OVERWRITE" && aws_eks_addon.this["coredns"].resolve_conflicts_on_update == "OVERWRITE"
    error_message = "the declared configuration wins"
  }

  assert {
    condition     = !anytrue([for name in fileset(path.module, "*.tf") : can(regex("most_recent|aws_eks_addon_version|data \"http\"|ignore_changes = \\[addon_version", file("${path.module}/${name}")))])
    error_message = "no resync may upgrade an addon, and none may hide a pinned change"
  }
}

run "an_addon_without_a_version_keeps_the_one_aws_chose" {
  variables {
    addons = [{ name = "coredns" }]
  }

  override_resource {
    target = aws_eks_addon.this
    values = { addon_version = "v1.11.4-eksbuild.2" }
  }

  assert {
    condition     = aws_eks_addon.this["coredns"].addon_version == "v1.11.4-eksbuild.2"
    error_message = "version ${aws_eks_addon.this["coredns"].addon_version}"
  }
}

run "a_newer_default_of_aws_changes_nothing" {
  command = plan

  variables {
    addons = [{ name = "coredns" }]
  }

  override_resource {
    target = aws_eks_addon.this
    values = { addon_version = "v1.12.0-eksbuild.1" }
  }

  assert {
    condition     = aws_eks_addon.this["coredns"].addon_version == "v1.11.4-eksbuild.2"
    error_message = "version ${aws_eks_addon.this["coredns"].addon_version}"
  }
}

run "a_newly_pinned_version_is_a_change" {
  command = plan

  variables {
    addons = [{ name = "coredns", version = "v1.12.0-eksbuild.1" }]
  }

  assert {
    condition     = aws_eks_addon.this["coredns"].addon_version == "v1.12.0-eksbuild.1"
    error_message = "version ${aws_eks_addon.this["coredns"].addon_version}"
  }
}
