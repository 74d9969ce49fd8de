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

# Out of order, as the API may answer.
mock_data "aws_availability_zones" {
  defaults = { names = ["eu-west-1c", "eu-west-1a", "eu-west-1d", "eu-west-1b"] }
}

mock_resource "aws_vpc" {
  defaults = { id = "vpc-0aaaaaaaaaaaaaaaa" }
}

mock_resource "aws_iam_role" {
  defaults = { arn = "arn:aws:iam::111122223333:role/flow-logs" }
}

mock_resource "aws_cloudwatch_log_group" {
  defaults = { arn = "arn:aws:logs:eu-west-1:111122223333:log-group:flow-logs" }
}
