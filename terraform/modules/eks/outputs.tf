output "cluster_name" {
  description = "Name of the cluster."
  value       = aws_eks_cluster.this.name
}

output "cluster_arn" {
  description = "ARN of the cluster."
  value       = aws_eks_cluster.this.arn

  precondition {
    condition     = aws_eks_cluster.this.vpc_config[0].vpc_id == var.vpc_id
    error_message = "Cluster ${var.cluster_name} is in VPC ${aws_eks_cluster.this.vpc_config[0].vpc_id}, the VPC of private_subnets, but vpc_id says ${var.vpc_id}: correct the one that is wrong."
  }
}

output "cluster_endpoint" {
  description = "Address of the Kubernetes API."
  value       = aws_eks_cluster.this.endpoint
}

output "cluster_certificate_authority_data" {
  description = "Certificate of the Kubernetes API's authority, base64."
  value       = aws_eks_cluster.this.certificate_authority[0].data
  sensitive   = true
}

output "cluster_version" {
  description = "Kubernetes version of the control plane."
  value       = aws_eks_cluster.this.version
}

output "cluster_platform_version" {
  description = "EKS platform version of the control plane."
  value       = aws_eks_cluster.this.platform_version
}

output "cluster_status" {
  description = "State of the cluster as EKS tells it."
  value       = aws_eks_cluster.this.status
}

output "oidc_provider" {
  description = "Issuer of service account tokens, without the scheme."
  value       = replace(local.issuer, "https://", "")
}

output "oidc_provider_arn" {
  description = "ARN of the IAM identity provider for service accounts."
  value       = aws_iam_openid_connect_provider.cluster.arn
}

output "cluster_primary_security_group_id" {
  description = "Security group that EKS made for the cluster; Fargate pods use it."
  value       = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
}

output "pod_execution_role_arn" {
  description = "Role that Fargate pods are started with, made here or given."
  value       = local.pod_execution_role_arn
}

output "kms_key_arn" {
  description = "Key that encrypts Kubernetes secrets, made here or given; null without encryption."
  value       = var.encryption_enabled ? local.kms_key_arn : null
}

output "fargate_profiles" {
  description = "The Fargate profiles made here, by name."
  value = {
    for profile in aws_eks_fargate_profile.system : profile.fargate_profile_name => {
      arn      = profile.arn
      status   = profile.status
      role_arn = profile.pod_execution_role_arn
    }
  }
}
