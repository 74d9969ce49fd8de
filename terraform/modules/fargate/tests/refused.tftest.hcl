# Input that is refused before anything is planned.

mock_provider "aws" {}

variables {
  cluster_name           = "demo"
  profile_name           = "apps"
  selectors              = [{ namespace = "apps" }]
  private_subnets        = ["subnet-0a"]
  pod_execution_role_arn = "arn:aws:iam::111122223333:role/pods"
}

run "a_cluster_name_with_a_dot_is_refused" {
  command = plan

  variables {
    cluster_name = "my.cluster"
  }

  expect_failures = [var.cluster_name]
}

run "a_name_that_aws_keeps_for_itself_is_refused" {
  command = plan

  variables {
    profile_name = "eks-apps"
  }

  expect_failures = [var.profile_name]
}

run "an_empty_name_is_refused" {
  command = plan

  variables {
    profile_name = ""
  }

  expect_failures = [var.profile_name]
}

run "a_name_of_101_characters_is_refused" {
  command = plan

  variables {
    profile_name = join("", [for number in range(101) : "a"])
  }

  expect_failures = [var.profile_name]
}

run "no_selector_is_refused" {
  command = plan

  variables {
    selectors = []
  }

  expect_failures = [var.selectors]
}

run "an_empty_namespace_is_refused" {
  command = plan

  variables {
    selectors = [{ namespace = "" }]
  }

  expect_failures = [var.selectors]
}

run "a_regular_expression_is_no_namespace" {
  command = plan

  variables {
    selectors = [{ namespace = "team-[ab]" }]
  }

  expect_failures = [var.selectors]
}

run "a_namespace_in_capitals_is_refused" {
  command = plan

  variables {
    selectors = [{ namespace = "Apps" }]
  }

  expect_failures = [var.selectors]
}

run "the_same_selector_twice_is_refused" {
  command = plan

  variables {
    selectors = [{ namespace = "a" }, { namespace = "a" }]
  }

  expect_failures = [var.selectors]
}

run "a_label_without_a_value_is_refused" {
  command = plan

  variables {
    selectors = [{ namespace = "a", labels = { app = "" } }]
  }

  expect_failures = [var.selectors]
}

run "a_label_with_a_space_is_refused" {
  command = plan

  variables {
    selectors = [{ namespace = "a", labels = { "my app" = "a" } }]
  }

  expect_failures = [var.selectors]
}

run "no_subnet_is_refused" {
  command = plan

  variables {
    private_subnets = []
  }

  expect_failures = [var.private_subnets]
}

run "a_subnet_that_is_none_is_refused" {
  command = plan

  variables {
    private_subnets = ["a"]
  }

  expect_failures = [var.private_subnets]
}

run "a_role_with_a_path_is_refused" {
  command = plan

  variables {
    pod_execution_role_arn = "arn:aws:iam::111122223333:role/team/pods"
  }

  expect_failures = [var.pod_execution_role_arn]
}

run "a_role_name_is_no_arn" {
  command = plan

  variables {
    pod_execution_role_arn = "pods"
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
