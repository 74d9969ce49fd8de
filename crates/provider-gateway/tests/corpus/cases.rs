//! Small configurations, one per feature. All but those marked as bare get a provider block for the local AWS.

/// How far a case goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CasePhase {
    /// A plan; it may fail.
    Plan,
    /// An apply, a plan without changes, and a destroy.
    Through,
    /// An apply that fails, and a destroy.
    Fails,
}

/// One case. `AWS` in a bare one is replaced by the settings of a provider block for the local AWS.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) goes: CasePhase,
    pub(crate) bare: bool,
    pub(crate) text: &'static str,
}

const fn plan(name: &'static str, text: &'static str) -> Case {
    Case { name, goes: CasePhase::Plan, bare: false, text }
}

const fn through(name: &'static str, text: &'static str) -> Case {
    Case { name, goes: CasePhase::Through, bare: false, text }
}

pub(crate) const CASES: &[Case] = &[
    // The first few are those of every test run.
    through(
        "queue-with-everything",
        r#"
        variable "secret" {
          default   = "s3cret"
          sensitive = true
        }
        data "aws_region" "here" {}
        resource "aws_sqs_queue" "a" {
          for_each = toset(["x", "y"])
          name     = "everything-${each.key}"
          tags     = { secret = var.secret }
        }
        output "arns" { value = { for key, queue in aws_sqs_queue.a : key => queue.arn } }
        output "secret" {
          value     = var.secret
          sensitive = true
        }
        output "region" { value = data.aws_region.here.name }
        "#,
    ),
    Case {
        name: "two-aliases",
        goes: CasePhase::Through,
        bare: true,
        text: r#"
        provider "aws" {
          region = "us-east-1"
          AWS
        }
        provider "aws" {
          alias  = "west"
          region = "us-west-2"
          AWS
        }
        data "aws_region" "one" {}
        data "aws_region" "two" { provider = aws.west }
        resource "aws_sqs_queue" "one" { name = "same-name" }
        resource "aws_sqs_queue" "two" {
          provider = aws.west
          name     = "same-name"
        }
        output "regions" { value = [data.aws_region.one.name, data.aws_region.two.name] }
        "#,
    },
    plan("error-in-a-value", "resource \"aws_vpc\" \"a\" { cidr_block = \"not a block\" }"),
    // The rest is for `CORPUS=all`.
    plan(
        "function-of-the-provider",
        "output \"account\" { value = provider::aws::arn_parse(\"arn:aws:iam::123456789012:role/a\").account_id }",
    ),
    plan("nothing", ""),
    plan("unknown-type", "resource \"aws_no_such_thing\" \"a\" {}"),
    plan("unknown-data", "data \"aws_no_such_thing\" \"a\" {}"),
    plan("unknown-argument", "resource \"aws_vpc\" \"a\" { colour = \"red\" }"),
    plan("missing-argument", "resource \"aws_subnet\" \"a\" {}"),
    plan(
        "conflicting-arguments",
        "resource \"aws_vpc\" \"a\" {\n cidr_block = \"10.0.0.0/16\"\n ipv4_ipam_pool_id = \"x\"\n}",
    ),
    plan("unknown-function", "output \"a\" { value = provider::aws::no_such_function(\"a\") }"),
    plan("function-that-fails", "output \"a\" { value = provider::aws::arn_parse(\"nonsense\") }"),
    plan("deprecated-argument", "resource \"aws_eip\" \"a\" { vpc = true }"),
    plan(
        "dynamic-blocks",
        "resource \"aws_security_group\" \"a\" {\n  name = \"a\"\n  dynamic \"ingress\" {\n    for_each = [80, 443]\n    content {\n      from_port = ingress.value\n      to_port = ingress.value\n      protocol = \"tcp\"\n    }\n  }\n}",
    ),
    plan("data-that-is-not-there", "data \"aws_vpc\" \"a\" { id = \"vpc-00000000000000000\" }"),
    plan(
        "import-of-nothing",
        "import {\n  to = aws_vpc.a\n  id = \"vpc-00000000000000000\"\n}\nresource \"aws_vpc\" \"a\" { cidr_block = \"10.0.0.0/16\" }",
    ),
    plan("removed-block", "removed {\n  from = aws_vpc.gone\n  lifecycle { destroy = false }\n}"),
    plan(
        "moved-block",
        "moved {\n  from = aws_sqs_queue.old\n  to = aws_sqs_queue.new\n}\nresource \"aws_sqs_queue\" \"new\" { name = \"moved\" }",
    ),
    plan("count-of-zero", "resource \"aws_vpc\" \"a\" {\n  count = 0\n  cidr_block = \"10.0.0.0/16\"\n}"),
    plan(
        "unknown-values",
        "resource \"terraform_data\" \"a\" {}\nresource \"aws_sqs_queue\" \"a\" { name = terraform_data.a.id }",
    ),
    plan(
        "precondition-that-fails",
        "data \"aws_region\" \"a\" {\n  lifecycle {\n    postcondition {\n      condition = self.name == \"mars\"\n      error_message = \"not there\"\n    }\n  }\n}",
    ),
    plan(
        "check-block",
        "check \"a\" {\n  data \"aws_region\" \"b\" {}\n  assert {\n    condition = data.aws_region.b.name == \"mars\"\n    error_message = \"not there\"\n  }\n}",
    ),
    Case {
        name: "no-region",
        goes: CasePhase::Plan,
        bare: true,
        text: "provider \"aws\" {\n  AWS\n}\ndata \"aws_region\" \"a\" {}",
    },
    Case {
        name: "bad-provider-block",
        goes: CasePhase::Plan,
        bare: true,
        text: "provider \"aws\" {\n  region = \"us-east-1\"\n  colour = \"red\"\n  AWS\n}\ndata \"aws_region\" \"a\" {}",
    },
    Case {
        name: "unknown-in-the-provider-block",
        goes: CasePhase::Plan,
        bare: true,
        text: "resource \"terraform_data\" \"a\" { input = \"us-east-1\" }\nprovider \"aws\" {\n  region = terraform_data.a.output\n  AWS\n}\nresource \"aws_sqs_queue\" \"a\" { name = \"a\" }",
    },
    Case {
        name: "default-tags",
        goes: CasePhase::Through,
        bare: true,
        text: "provider \"aws\" {\n  region = \"us-east-1\"\n  default_tags { tags = { team = \"a\" } }\n  AWS\n}\nresource \"aws_sqs_queue\" \"a\" {\n  name = \"tagged\"\n  tags = { own = \"b\" }\n}",
    },
    through(
        "network",
        "resource \"aws_vpc\" \"a\" { cidr_block = \"10.0.0.0/16\" }\nresource \"aws_subnet\" \"a\" {\n  count = 2\n  vpc_id = aws_vpc.a.id\n  cidr_block = cidrsubnet(aws_vpc.a.cidr_block, 8, count.index)\n  availability_zone = \"us-east-1a\"\n}\nresource \"aws_internet_gateway\" \"a\" { vpc_id = aws_vpc.a.id }\nresource \"aws_route_table\" \"a\" { vpc_id = aws_vpc.a.id }\nresource \"aws_route\" \"a\" {\n  route_table_id = aws_route_table.a.id\n  destination_cidr_block = \"0.0.0.0/0\"\n  gateway_id = aws_internet_gateway.a.id\n}",
    ),
    through(
        "roles",
        "resource \"aws_iam_role\" \"a\" {\n  name = \"corpus\"\n  assume_role_policy = jsonencode({ Version = \"2012-10-17\", Statement = [{ Effect = \"Allow\", Action = \"sts:AssumeRole\", Principal = { Service = \"eks.amazonaws.com\" } }] })\n}\nresource \"aws_iam_role_policy\" \"a\" {\n  role = aws_iam_role.a.id\n  policy = jsonencode({ Version = \"2012-10-17\", Statement = [{ Effect = \"Allow\", Action = \"s3:GetObject\", Resource = \"*\" }] })\n}",
    ),
    through(
        "parameter-with-a-secret",
        "resource \"aws_ssm_parameter\" \"a\" {\n  name = \"corpus\"\n  type = \"SecureString\"\n  value = \"secret\"\n}",
    ),
    through(
        "write-only",
        "resource \"aws_ssm_parameter\" \"a\" {\n  name = \"writeonly\"\n  type = \"SecureString\"\n  value_wo = \"secret\"\n  value_wo_version = 1\n}",
    ),
    through(
        "ephemeral",
        "resource \"aws_ssm_parameter\" \"a\" {\n  name = \"ephemeral\"\n  type = \"String\"\n  value = \"x\"\n}\nephemeral \"aws_ssm_parameter\" \"a\" { arn = aws_ssm_parameter.a.arn }",
    ),
    through(
        "policy-document",
        "data \"aws_iam_policy_document\" \"a\" {\n  statement {\n    actions = [\"s3:*\"]\n    resources = [\"*\"]\n  }\n}\noutput \"json\" { value = data.aws_iam_policy_document.a.json }",
    ),
    through(
        "create-before-destroy",
        "resource \"aws_sqs_queue\" \"a\" {\n  name_prefix = \"corpus\"\n  lifecycle { create_before_destroy = true }\n}",
    ),
    through(
        "mixed-with-terraforms-own",
        "resource \"terraform_data\" \"a\" { input = aws_sqs_queue.a.name }\nresource \"aws_sqs_queue\" \"a\" { name = \"mixed\" }\noutput \"a\" { value = terraform_data.a.output }",
    ),
    Case {
        name: "apply-that-fails",
        goes: CasePhase::Fails,
        bare: false,
        text: "resource \"aws_sqs_queue\" \"a\" { name = \"made\" }\nresource \"aws_subnet\" \"a\" {\n  vpc_id = \"vpc-00000000000000000\"\n  cidr_block = \"10.0.0.0/24\"\n  depends_on = [aws_sqs_queue.a]\n}",
    },
];
