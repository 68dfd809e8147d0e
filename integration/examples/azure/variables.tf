variable "resource_group" {
  type        = string
  description = "Resource group of the cluster. It exists already."
}

variable "cluster" {
  type        = string
  description = "AKS cluster with the OIDC issuer and workload identity enabled."
}

variable "namespace" {
  type        = string
  description = "Name of the Service Bus namespace, unique in Azure."
}

variable "sku" {
  type        = string
  default     = "Premium"
  description = "Tier of the namespace: Premium or Standard."

  validation {
    condition     = contains(["Premium", "Standard"], var.sku)
    error_message = "Use Premium or Standard: Basic has no topics."
  }
}

variable "messaging_units" {
  type        = number
  default     = 1
  description = "Messaging units of a Premium namespace. docs/scaling.md says how many a load needs."

  validation {
    condition     = contains([1, 2, 4, 8, 16], var.messaging_units)
    error_message = "Use 1, 2, 4, 8 or 16."
  }
}

variable "kubernetes_namespace" {
  type        = string
  default     = "penstock"
  description = "Kubernetes namespace of the release."
}

variable "release" {
  type        = string
  default     = "shop"
  description = "Name of the Helm release."
}
