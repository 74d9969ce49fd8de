variable "name" {
  description = "Name of the VPC and prefix of the names of everything in it."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_.-]{0,99}$", var.name))
    error_message = "name must be 1 to 100 letters, digits, '_', '.' or '-' and start with a letter or digit."
  }
}

variable "cluster_name" {
  description = "Name of the EKS cluster the subnets are tagged for."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must be 1 to 100 letters, digits, '_' or '-' and start with a letter or digit."
  }
}

variable "cidr" {
  description = "IPv4 range of the VPC, /16 to /24. Not used with existing_vpc_id."
  type        = string
  default     = "10.0.0.0/16"
  nullable    = false

  validation {
    condition     = can(regex("^[0-9.]+/(1[6-9]|2[0-4])$", var.cidr)) && can(cidrhost(var.cidr, 0))
    error_message = "cidr must be an IPv4 range from /16 to /24, for example 10.0.0.0/16."
  }

  # AWS stores the network address, so host bits would come back as drift that only a new VPC can cure.
  validation {
    condition     = try("${cidrhost(var.cidr, 0)}/${split("/", var.cidr)[1]}" == var.cidr, true)
    error_message = "cidr must be a network address: write ${try("${cidrhost(var.cidr, 0)}/${split("/", var.cidr)[1]}", "10.0.0.0/16")} instead of ${var.cidr}."
  }
}

variable "availability_zones" {
  description = "Availability zones by name, in the order of their address slots. Empty: the first az_count zones of the region."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = contains([0, 2, 3], length(var.availability_zones))
    error_message = "availability_zones must name 2 or 3 zones, or none to have az_count zones chosen."
  }

  validation {
    condition     = length(distinct(var.availability_zones)) == length(var.availability_zones)
    error_message = "availability_zones names a zone twice."
  }

  validation {
    condition     = alltrue([for zone in var.availability_zones : can(regex("^[a-z]{2,}(-[a-z]+)+-[0-9]+[a-z]$", zone))])
    error_message = "availability_zones takes zone names such as eu-west-1a, not zone ids, local zones or Wavelength zones."
  }
}

variable "az_count" {
  description = "How many availability zones to use when availability_zones is empty: 2 or 3."
  type        = number
  default     = 3
  nullable    = false

  validation {
    condition     = contains([2, 3], var.az_count)
    error_message = "az_count must be 2 or 3: EKS needs two zones, and a third is the most this address plan holds."
  }
}

variable "nat" {
  description = "NAT gateways for the private subnets: none, single (one for all zones) or per_az."
  type        = string
  default     = "single"
  nullable    = false

  validation {
    condition     = contains(["none", "single", "per_az"], var.nat)
    error_message = "nat must be none, single or per_az."
  }
}

variable "flow_logs_enabled" {
  description = "Send the flow logs of the VPC to CloudWatch Logs."
  type        = bool
  default     = false
  nullable    = false

  validation {
    condition     = !var.flow_logs_enabled || var.existing_vpc_id == null
    error_message = "flow_logs_enabled works only for a VPC made here: enable flow logs where the existing VPC is managed, or drop existing_vpc_id."
  }
}

variable "flow_logs_retention_days" {
  description = "How long CloudWatch keeps the flow logs, in days; 0 keeps them for ever."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = contains([0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.flow_logs_retention_days)
    error_message = "flow_logs_retention_days must be a value that CloudWatch Logs accepts: 0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653."
  }
}

variable "existing_vpc_id" {
  description = "Use this VPC instead of making one. Nothing in it is created, changed or tagged."
  type        = string
  default     = null

  validation {
    condition     = var.existing_vpc_id == null || can(regex("^vpc-[0-9a-f]+$", var.existing_vpc_id))
    error_message = "existing_vpc_id must be a VPC id such as vpc-0123456789abcdef0."
  }
}

variable "existing_private_subnet_ids" {
  description = "Private subnets of the existing VPC. Empty: every subnet without a route to an internet gateway."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.existing_private_subnet_ids) == 0 || var.existing_vpc_id != null
    error_message = "existing_private_subnet_ids needs existing_vpc_id: name the VPC the subnets are in."
  }

  validation {
    condition     = alltrue([for id in var.existing_private_subnet_ids : can(regex("^subnet-[0-9a-f]+$", id))])
    error_message = "existing_private_subnet_ids takes subnet ids such as subnet-0123456789abcdef0."
  }

  validation {
    condition     = length(distinct(var.existing_private_subnet_ids)) == length(var.existing_private_subnet_ids)
    error_message = "existing_private_subnet_ids names a subnet twice."
  }
}

variable "existing_public_subnet_ids" {
  description = "Public subnets of the existing VPC. Empty: every subnet with a route to an internet gateway."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.existing_public_subnet_ids) == 0 || var.existing_vpc_id != null
    error_message = "existing_public_subnet_ids needs existing_vpc_id: name the VPC the subnets are in."
  }

  validation {
    condition     = alltrue([for id in var.existing_public_subnet_ids : can(regex("^subnet-[0-9a-f]+$", id))])
    error_message = "existing_public_subnet_ids takes subnet ids such as subnet-0123456789abcdef0."
  }

  validation {
    condition     = length(distinct(var.existing_public_subnet_ids)) == length(var.existing_public_subnet_ids)
    error_message = "existing_public_subnet_ids names a subnet twice."
  }
}

variable "tags" {
  description = "Tags for every resource made here. The tags that Kubernetes reads, and Name, are set by this module and win."
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
