variable "cluster_name" {
  description = "EKS cluster the profile belongs to."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must be 1 to 100 letters, digits, '_' or '-' and start with a letter or digit."
  }
}

variable "profile_name" {
  description = "Name of the profile; unique in the cluster."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.profile_name))
    error_message = "profile_name must be 1 to 100 letters, digits, '_' or '-' and start with a letter or digit."
  }

  validation {
    condition     = !startswith(var.profile_name, "eks-")
    error_message = "profile_name must not start with 'eks-': AWS keeps that prefix for itself."
  }
}

variable "selectors" {
  description = "Which pods run on Fargate: a namespace each, and labels that must all match. '*' and '?' are wildcards."
  type = list(object({
    namespace = string
    labels    = optional(map(string), {})
  }))

  validation {
    condition     = length(var.selectors) > 0
    error_message = "selectors must hold at least one selector: a profile without one matches no pod and EKS refuses it."
  }

  validation {
    condition     = length(distinct(var.selectors)) == length(var.selectors)
    error_message = "selectors names a selector twice."
  }

  validation {
    condition     = alltrue([for selector in var.selectors : can(regex("^[0-9a-z*?]([0-9a-z*?-]{0,61}[0-9a-z*?])?$", selector.namespace))])
    error_message = "The namespace of a selector must be the name of a namespace, in which '*' stands for any characters and '?' for one."
  }

  validation {
    condition = alltrue([for selector in var.selectors : alltrue([for key, value in selector.labels :
      can(regex("^[0-9A-Za-z*?]([0-9A-Za-z*?_./-]{0,125}[0-9A-Za-z*?])?$", key)) &&
      can(regex("^[0-9A-Za-z*?]([0-9A-Za-z*?_.-]{0,253}[0-9A-Za-z*?])?$", value))
    ])])
    error_message = "The labels of a selector must be Kubernetes labels with a value, in which '*' stands for any characters and '?' for one; keys up to 127 and values up to 255 characters."
  }
}

variable "private_subnets" {
  description = "Private subnets the pods run in."
  type        = list(string)

  validation {
    condition     = length(var.private_subnets) > 0
    error_message = "private_subnets must hold at least one subnet."
  }

  validation {
    condition     = alltrue([for id in var.private_subnets : can(regex("^subnet-[0-9a-f]+$", id))])
    error_message = "private_subnets takes subnet ids such as subnet-0123456789abcdef0."
  }
}

variable "pod_execution_role_arn" {
  description = "Role the pods are started with; it trusts eks-fargate-pods.amazonaws.com."
  type        = string

  validation {
    condition     = can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:role/[^/]+$", var.pod_execution_role_arn))
    error_message = "pod_execution_role_arn must be the ARN of an IAM role with the path '/', such as arn:aws:iam::111122223333:role/fargate: EKS accepts no other path."
  }
}

variable "tags" {
  description = "Tags for the profile; the only thing of it that can change in place."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = length(var.tags) <= 50
    error_message = "tags must hold at most 50 tags: AWS allows no more on a resource."
  }

  validation {
    condition     = alltrue([for key, value in var.tags : can(regex("^.{1,128}$", key)) && !startswith(lower(key), "aws:") && length(value) <= 256])
    error_message = "tags must have keys of 1 to 128 characters that do not start with 'aws:', and values of at most 256 characters."
  }
}
