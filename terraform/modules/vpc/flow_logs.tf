# Flow logs of the VPC in CloudWatch. Names contain the VPC's id: names of VPCs need not be unique in
# an account, and the names of IAM roles are shared by all its regions.

data "aws_partition" "current" {
  count = var.flow_logs_enabled ? 1 : 0
}

data "aws_caller_identity" "current" {
  count = var.flow_logs_enabled ? 1 : 0
}

locals {
  flow_logs_source = one([
    for caller in data.aws_caller_identity.current :
    "arn:${data.aws_partition.current[0].partition}:ec2:${data.aws_region.current.id}:${caller.account_id}:vpc-flow-log/*"
  ])
}

resource "aws_cloudwatch_log_group" "flow_logs" {
  count = var.flow_logs_enabled ? 1 : 0

  name              = "/aws/vpc-flow-logs/${aws_vpc.this[0].id}"
  retention_in_days = var.flow_logs_retention_days

  tags = merge(var.tags, { Name = "${var.name}-flow-logs" })
}

resource "aws_iam_role" "flow_logs" {
  count = var.flow_logs_enabled ? 1 : 0

  name                  = "${substr(var.name, 0, 30)}-${aws_vpc.this[0].id}-flow-logs"
  description           = "Writes the flow logs of ${var.name} to CloudWatch Logs"
  force_detach_policies = true

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "vpc-flow-logs.amazonaws.com" }
      Condition = {
        StringEquals = { "aws:SourceAccount" = data.aws_caller_identity.current[0].account_id }
        ArnLike      = { "aws:SourceArn" = local.flow_logs_source }
      }
    }]
  })

  tags = merge(var.tags, { Name = "${var.name}-flow-logs" })
}

resource "aws_iam_role_policy" "flow_logs" {
  count = var.flow_logs_enabled ? 1 : 0

  name = "write-flow-logs"
  role = aws_iam_role.flow_logs[0].name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect = "Allow"
      Action = [
        "logs:CreateLogStream",
        "logs:DescribeLogGroups",
        "logs:DescribeLogStreams",
        "logs:PutLogEvents",
      ]
      Resource = [
        aws_cloudwatch_log_group.flow_logs[0].arn,
        "${aws_cloudwatch_log_group.flow_logs[0].arn}:*",
      ]
    }]
  })
}

resource "aws_flow_log" "this" {
  count = var.flow_logs_enabled ? 1 : 0

  vpc_id               = aws_vpc.this[0].id
  traffic_type         = "ALL"
  log_destination_type = "cloud-watch-logs"
  log_destination      = aws_cloudwatch_log_group.flow_logs[0].arn
  iam_role_arn         = aws_iam_role.flow_logs[0].arn

  tags = merge(var.tags, { Name = var.name })

  depends_on = [aws_iam_role_policy.flow_logs]
}
