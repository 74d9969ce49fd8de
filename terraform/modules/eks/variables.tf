variable "cluster_name" {
  description = "Name of the EKS cluster; unique in its account and region."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must be 1 to 100 letters, digits, '_' or '-' and start with a letter or digit."
  }
}

variable "kubernetes_version" {
  description = "Kubernetes version as EKS knows it: major and minor."
  type        = string
  default     = "1.33"
  nullable    = false

  validation {
    condition     = can(regex("^1\\.[1-9][0-9]$", var.kubernetes_version))
    error_message = "kubernetes_version must be major.minor such as 1.33: no leading v, no patch number, no 'latest'."
  }
}

variable "vpc_id" {
  description = "The VPC the subnets are in."
  type        = string

  validation {
    condition     = can(regex("^vpc-[0-9a-f]+$", var.vpc_id))
    error_message = "vpc_id must be a VPC id such as vpc-0123456789abcdef0."
  }
}

variable "private_subnets" {
  description = "Private subnets in two or more availability zones, for the control plane and the system profile."
  type        = list(string)

  validation {
    condition     = length(distinct(var.private_subnets)) >= 2
    error_message = "private_subnets must hold at least two subnets, in different availability zones."
  }

  validation {
    condition     = alltrue([for id in var.private_subnets : can(regex("^subnet-[0-9a-f]+$", id))])
    error_message = "private_subnets takes subnet ids such as subnet-0123456789abcdef0."
  }
}

variable "endpoint_public_access" {
  description = "The API endpoint answers from the internet."
  type        = bool
  default     = true
  nullable    = false
}

variable "endpoint_private_access" {
  description = "The API endpoint answers inside the VPC."
  type        = bool
  default     = true
  nullable    = false

  validation {
    condition     = var.endpoint_private_access || var.endpoint_public_access
    error_message = "endpoint_private_access and endpoint_public_access cannot both be false: nothing could reach the API."
  }
}

variable "endpoint_public_cidrs" {
  description = "IPv4 ranges that may use the public endpoint. Not used while public access is off."
  type        = list(string)
  default     = ["0.0.0.0/0"]
  nullable    = false

  validation {
    condition     = alltrue([for cidr in var.endpoint_public_cidrs : can(regex("^[0-9.]+/[0-9]+$", cidr)) && try("${cidrhost(cidr, 0)}/${split("/", cidr)[1]}" == cidr, false)])
    error_message = "endpoint_public_cidrs takes IPv4 network addresses such as 203.0.113.0/24 or 198.51.100.7/32."
  }

  validation {
    condition     = !var.endpoint_public_access || length(var.endpoint_public_cidrs) > 0
    error_message = "endpoint_public_cidrs is empty while public access is on: list the ranges that may connect, or set endpoint_public_access to false."
  }

  # Fargate pods reach the API like anybody else: through the private endpoint, or from the NAT's address.
  validation {
    condition     = !var.endpoint_public_access || var.endpoint_private_access || contains(var.endpoint_public_cidrs, "0.0.0.0/0")
    error_message = "endpoint_public_cidrs restricts the public endpoint while private access is off, so that Fargate pods cannot reach the API: set endpoint_private_access to true, or allow 0.0.0.0/0."
  }
}

variable "access_entries" {
  description = "IAM principals that may use the Kubernetes API, with their groups and EKS access policies."
  type = list(object({
    principal_arn     = string
    type              = optional(string, "STANDARD")
    kubernetes_groups = optional(list(string), [])
    policies = optional(list(object({
      policy_arn = string
      scope_type = optional(string, "cluster")
      namespaces = optional(list(string), [])
    })), [])
  }))
  default  = []
  nullable = false

  validation {
    condition     = length(distinct(var.access_entries[*].principal_arn)) == length(var.access_entries)
    error_message = "access_entries names a principal twice: join its groups and policies in one entry."
  }

  validation {
    condition     = alltrue([for entry in var.access_entries : can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/.+$", entry.principal_arn))])
    error_message = "access_entries takes ARNs of IAM roles and users, such as arn:aws:iam::111122223333:role/admin; an assumed-role session is no principal here."
  }

  validation {
    condition     = alltrue([for entry in var.access_entries : contains(["STANDARD", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX"], entry.type)])
    error_message = "The type of an access entry must be STANDARD, EC2_LINUX, EC2_WINDOWS or FARGATE_LINUX."
  }

  validation {
    condition     = alltrue([for entry in var.access_entries : entry.type == "STANDARD" || length(entry.kubernetes_groups) + length(entry.policies) == 0])
    error_message = "Only an access entry of type STANDARD may have kubernetes_groups or policies: EKS gives the others their rights."
  }

  validation {
    condition     = alltrue([for entry in var.access_entries : alltrue([for group in entry.kubernetes_groups : !startswith(group, "system:") && length(group) > 0])])
    error_message = "kubernetes_groups of an access entry must not be empty or start with 'system:': EKS refuses them. For an administrator use the policy AmazonEKSClusterAdminPolicy."
  }

  validation {
    condition     = alltrue([for entry in var.access_entries : alltrue([for policy in entry.policies : can(regex("^arn:aws[a-z-]*:eks::aws:cluster-access-policy/.+$", policy.policy_arn))])])
    error_message = "policies of an access entry takes EKS access policies, such as arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy; IAM policies are not among them."
  }

  validation {
    condition     = alltrue([for entry in var.access_entries : length(distinct(entry.policies[*].policy_arn)) == length(entry.policies)])
    error_message = "An access entry names a policy twice: join its namespaces in one policy."
  }

  validation {
    condition = alltrue([for entry in var.access_entries : alltrue([for policy in entry.policies :
      policy.scope_type == "cluster" ? length(policy.namespaces) == 0 : policy.scope_type == "namespace" && length(policy.namespaces) > 0
    ])])
    error_message = "The scope_type of an access policy must be cluster (without namespaces) or namespace (with at least one)."
  }
}

variable "bootstrap_creator_admin" {
  description = "Make the identity that creates the cluster its administrator. Read at creation only."
  type        = bool
  default     = true
  nullable    = false
}

variable "encryption_enabled" {
  description = "Encrypt Kubernetes secrets with a KMS key."
  type        = bool
  default     = true
  nullable    = false
}

variable "kms_key_arn" {
  description = "KMS key to encrypt with. Null: a key is made for the cluster."
  type        = string
  default     = null

  # An alias would be answered with the key's ARN, which reads as a change of the encryption for ever.
  validation {
    condition     = var.kms_key_arn == null || can(regex("^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/.+$", var.kms_key_arn))
    error_message = "kms_key_arn must be the ARN of a key, arn:aws:kms:<region>:<account>:key/<id>; not an alias, not a bare id."
  }

  validation {
    condition     = var.kms_key_arn == null || var.encryption_enabled
    error_message = "kms_key_arn is set while encryption_enabled is false: drop the key, or enable the encryption."
  }
}

variable "log_types" {
  description = "Control plane logs to send to CloudWatch: api, audit, authenticator, controllerManager, scheduler."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for type in var.log_types : contains(["api", "audit", "authenticator", "controllerManager", "scheduler"], type)])
    error_message = "log_types may hold api, audit, authenticator, controllerManager and scheduler."
  }
}

variable "log_retention_days" {
  description = "How long CloudWatch keeps the control plane logs, in days; 0 keeps them for ever."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = contains([0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "log_retention_days must be a value that CloudWatch Logs accepts: 0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653."
  }
}

variable "addons" {
  description = "EKS addons. Without a version AWS chooses its default once, at creation."
  type = list(object({
    name                     = string
    version                  = optional(string)
    configuration_values     = optional(string)
    service_account_role_arn = optional(string)
  }))
  default  = []
  nullable = false

  validation {
    condition     = length(distinct(var.addons[*].name)) == length(var.addons)
    error_message = "addons names an addon twice."
  }

  validation {
    condition     = alltrue([for addon in var.addons : can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", addon.name))])
    error_message = "The name of an addon must be 1 to 100 letters, digits, '_' or '-' and start with a letter or digit."
  }

  validation {
    condition     = alltrue([for addon in var.addons : addon.version == null || can(regex("^v[0-9]", addon.version))])
    error_message = "The version of an addon must be one that EKS lists, such as v1.11.4-eksbuild.2; leave it out for the default of AWS. 'latest' is not a version."
  }

  validation {
    condition     = alltrue([for addon in var.addons : addon.configuration_values == null || can(keys(jsondecode(addon.configuration_values)))])
    error_message = "configuration_values of an addon must be the text of a JSON object."
  }

  validation {
    condition     = alltrue([for addon in var.addons : addon.service_account_role_arn == null || can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:role/.+$", addon.service_account_role_arn))])
    error_message = "service_account_role_arn of an addon must be the ARN of an IAM role."
  }
}

variable "upgrade_support_type" {
  description = "What happens at the end of standard support: EXTENDED keeps the version and costs more, STANDARD upgrades."
  type        = string
  default     = "EXTENDED"
  nullable    = false

  validation {
    condition     = contains(["STANDARD", "EXTENDED"], var.upgrade_support_type)
    error_message = "upgrade_support_type must be STANDARD or EXTENDED."
  }
}

variable "service_ipv4_cidr" {
  description = "Range of the cluster's service addresses. Null: EKS takes one that does not overlap the VPC. Read at creation only."
  type        = string
  default     = null

  validation {
    condition = var.service_ipv4_cidr == null || (
      can(regex("^(10\\.[0-9.]+|172\\.(1[6-9]|2[0-9]|3[01])\\.[0-9.]+|192\\.168\\.[0-9.]+)/(1[2-9]|2[0-4])$", var.service_ipv4_cidr))
      && try("${cidrhost(var.service_ipv4_cidr, 0)}/${split("/", var.service_ipv4_cidr)[1]}" == var.service_ipv4_cidr, false)
    )
    error_message = "service_ipv4_cidr must be a private IPv4 network (10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16) from /12 to /24, such as 172.20.0.0/16."
  }
}

variable "pod_execution_role_arn" {
  description = "Role that Fargate pods are started with. Null: a role is made for the cluster."
  type        = string
  default     = null

  validation {
    condition     = var.pod_execution_role_arn == null || can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:role/[^/]+$", var.pod_execution_role_arn))
    error_message = "pod_execution_role_arn must be the ARN of an IAM role with the path '/', such as arn:aws:iam::111122223333:role/fargate: EKS accepts no other path."
  }
}

variable "owner" {
  description = "The uid of the CAPTControlPlane, for a tag of the cluster that proves whose it is. Null: no tag."
  type        = string
  default     = null

  validation {
    condition     = var.owner == null || can(regex("^[0-9A-Za-z-]{1,64}$", var.owner))
    error_message = "owner must be the uid of an object: 1 to 64 letters, digits and '-'."
  }
}

variable "system_profile" {
  description = "Make the Fargate profile 'system' for CoreDNS and run the coredns addon on it."
  type        = bool
  default     = true
  nullable    = false
}

variable "tags" {
  description = "Tags for every resource made here."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = length(var.tags) <= 45
    error_message = "tags must hold at most 45 tags: AWS allows 50 on a resource and this module adds its own."
  }

  validation {
    condition     = alltrue([for key, value in var.tags : can(regex("^.{1,128}$", key)) && !startswith(lower(key), "aws:") && length(value) <= 256])
    error_message = "tags must have keys of 1 to 128 characters that do not start with 'aws:', and values of at most 256 characters."
  }
}
