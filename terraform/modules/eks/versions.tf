terraform {
  required_version = ">= 1.10"

  required_providers {
    aws = {
      source = "hashicorp/aws"
      # 5.61 is the first release that knows upgrade_policy.
      version = ">= 5.61, < 7"
    }
  }
}
