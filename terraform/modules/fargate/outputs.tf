output "fargate_profile_arn" {
  description = "ARN of the profile."
  value       = aws_eks_fargate_profile.this.arn
}

output "fargate_profile_name" {
  description = "Name of the profile in EKS."
  value       = aws_eks_fargate_profile.this.fargate_profile_name
}

output "fargate_profile_status" {
  description = "State of the profile as EKS tells it."
  value       = aws_eks_fargate_profile.this.status
}

output "pod_execution_role_arn" {
  description = "Role the pods are started with."
  value       = aws_eks_fargate_profile.this.pod_execution_role_arn
}
