# The provider that is in the image. The modules say with which versions they work, this says which one it is:
# `terraform providers mirror` has to satisfy both.

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
