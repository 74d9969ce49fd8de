//! `capt`: EKS clusters with Fargate from Kubernetes objects, by running Terraform itself.

pub mod api;
pub mod model;
