# An AWS that answers with values of the right form. Tests override what they are about.

mock_data "aws_region" {
  defaults = {
    id   = "eu-west-1"
    name = "eu-west-1"
  }
}

mock_data "aws_partition" {
  defaults = { partition = "aws" }
}

mock_data "aws_caller_identity" {
  defaults = { account_id = "111122223333" }
}

mock_resource "aws_iam_role" {
  defaults = { arn = "arn:aws:iam::111122223333:role/mock" }
}

mock_resource "aws_kms_key" {
  defaults = {
    arn    = "arn:aws:kms:eu-west-1:111122223333:key/made-here"
    key_id = "made-here"
  }
}

mock_resource "aws_eks_cluster" {
  defaults = {
    arn                   = "arn:aws:eks:eu-west-1:111122223333:cluster/demo"
    endpoint              = "https://demo.example"
    status                = "ACTIVE"
    platform_version      = "eks.1"
    certificate_authority = [{ data = "Q0E=" }]
    identity              = [{ oidc = [{ issuer = "https://oidc.example/id/DEMO" }] }]
    vpc_config            = { vpc_id = "vpc-0a", cluster_security_group_id = "sg-0a" }
  }
}

mock_resource "aws_eks_fargate_profile" {
  defaults = {
    arn    = "arn:aws:eks:eu-west-1:111122223333:fargateprofile/demo/system/1"
    status = "ACTIVE"
  }
}

mock_resource "aws_iam_openid_connect_provider" {
  defaults = { arn = "arn:aws:iam::111122223333:oidc-provider/oidc.example/id/DEMO" }
}
