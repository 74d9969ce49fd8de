//! A workspace of the quickstart's size: a VPC with six subnets, ways out, roles, an EKS cluster and a Fargate profile.

pub(crate) const WORKSPACE: &str = r#"
data "aws_availability_zones" "all" {
  state = "available"
}

locals {
  policy = { for service in ["eks", "eks-fargate-pods"] : service => jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "${service}.amazonaws.com" } }]
  }) }
}

resource "aws_vpc" "this" {
  cidr_block           = "10.0.0.0/16"
  enable_dns_hostnames = true
  tags                 = { Name = "bench-vpc" }
}

resource "aws_subnet" "private" {
  count             = 3
  vpc_id            = aws_vpc.this.id
  cidr_block        = cidrsubnet(aws_vpc.this.cidr_block, 8, count.index)
  availability_zone = data.aws_availability_zones.all.names[count.index]
}

resource "aws_subnet" "public" {
  count             = 3
  vpc_id            = aws_vpc.this.id
  cidr_block        = cidrsubnet(aws_vpc.this.cidr_block, 8, 100 + count.index)
  availability_zone = data.aws_availability_zones.all.names[count.index]
}

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id
}

resource "aws_eip" "nat" {
  domain = "vpc"
}

resource "aws_nat_gateway" "this" {
  allocation_id = aws_eip.nat.id
  subnet_id     = aws_subnet.public[0].id
}

resource "aws_route_table" "private" {
  vpc_id = aws_vpc.this.id
}

resource "aws_route" "out" {
  route_table_id         = aws_route_table.private.id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this.id
}

resource "aws_route_table_association" "private" {
  count          = 3
  route_table_id = aws_route_table.private.id
  subnet_id      = aws_subnet.private[count.index].id
}

resource "aws_iam_role" "cluster" {
  name               = "bench-cluster"
  assume_role_policy = local.policy["eks"]
}

resource "aws_iam_role" "pods" {
  name               = "bench-pods"
  assume_role_policy = local.policy["eks-fargate-pods"]
}

resource "aws_iam_role_policy_attachment" "cluster" {
  role       = aws_iam_role.cluster.name
  policy_arn = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
}

resource "aws_eks_cluster" "this" {
  name     = "bench-cluster"
  role_arn = aws_iam_role.cluster.arn
  vpc_config {
    subnet_ids = aws_subnet.private[*].id
  }
  depends_on = [aws_iam_role_policy_attachment.cluster]
}

resource "aws_eks_fargate_profile" "this" {
  cluster_name           = aws_eks_cluster.this.name
  fargate_profile_name   = "bench-profile"
  pod_execution_role_arn = aws_iam_role.pods.arn
  subnet_ids             = aws_subnet.private[*].id
  selector {
    namespace = "default"
  }
}
"#;
