# The provider in the image. The modules declare the supported versions, this file pins one:
# `terraform providers mirror` must satisfy both.

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "5.100.0"
    }
  }
}

module "vpc" {
  source = "../../terraform/modules/vpc"
}

module "eks" {
  source = "../../terraform/modules/eks"
}

module "fargate" {
  source = "../../terraform/modules/fargate"
}
