# One profile: what it is and how it is replaced.

mock_provider "aws" {
  mock_resource "aws_eks_fargate_profile" {
    defaults = {
      arn    = "arn:aws:eks:eu-west-1:111122223333:fargateprofile/demo/apps/1"
      status = "ACTIVE"
    }
  }
}

variables {
  cluster_name           = "demo"
  profile_name           = "apps"
  private_subnets        = ["subnet-0a", "subnet-0b"]
  pod_execution_role_arn = "arn:aws:iam::111122223333:role/pods"
  selectors = [
    { namespace = "apps" },
    { namespace = "team-*", labels = { "app.kubernetes.io/part-of" = "shop-?", fargate = "yes" } },
  ]
}

run "the_profile_is_what_was_asked_for" {
  command = plan

  assert {
    condition = (
      aws_eks_fargate_profile.this.cluster_name == "demo"
      && aws_eks_fargate_profile.this.fargate_profile_name == "apps"
      && aws_eks_fargate_profile.this.pod_execution_role_arn == "arn:aws:iam::111122223333:role/pods"
      && aws_eks_fargate_profile.this.subnet_ids == toset(["subnet-0a", "subnet-0b"])
    )
    error_message = "profile ${aws_eks_fargate_profile.this.fargate_profile_name}"
  }

  assert {
    condition = toset([for selector in aws_eks_fargate_profile.this.selector : jsonencode(selector)]) == toset([
      jsonencode({ namespace = "apps", labels = null }),
      jsonencode({ namespace = "team-*", labels = { "app.kubernetes.io/part-of" = "shop-?", fargate = "yes" } }),
    ])
    error_message = "selectors: ${jsonencode(aws_eks_fargate_profile.this.selector)}"
  }
}

run "the_outputs_say_what_eks_says" {
  assert {
    condition = (
      output.fargate_profile_arn == "arn:aws:eks:eu-west-1:111122223333:fargateprofile/demo/apps/1"
      && output.fargate_profile_name == "apps"
      && output.fargate_profile_status == "ACTIVE"
      && output.pod_execution_role_arn == "arn:aws:iam::111122223333:role/pods"
    )
    error_message = "outputs: ${output.fargate_profile_arn} ${output.fargate_profile_name} ${output.fargate_profile_status}"
  }
}

run "the_tags_are_on_the_profile" {
  command = plan

  variables {
    tags = { team = "platform" }
  }

  assert {
    condition     = aws_eks_fargate_profile.this.tags == tomap({ team = "platform" })
    error_message = "tags: ${jsonencode(aws_eks_fargate_profile.this.tags)}"
  }
}

run "the_new_profile_is_made_before_the_old_one_goes" {
  command = plan

  assert {
    condition     = can(regex("(?s)lifecycle \\{[^}]*create_before_destroy = true", file("${path.module}/main.tf")))
    error_message = "else the pods have nowhere to run in between"
  }

  assert {
    condition     = aws_eks_fargate_profile.this.timeouts.create == "30m" && aws_eks_fargate_profile.this.timeouts.delete == "60m"
    error_message = "timeouts: ${jsonencode(aws_eks_fargate_profile.this.timeouts)}"
  }
}
