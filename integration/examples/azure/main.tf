# The Azure side of one pipeline: the namespace, the topic, the projector's subscription, a
# subscription for another consumer, and an identity for each service of Penstock.

terraform {
  required_version = ">= 1.5"
  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = "~> 5.0"
    }
  }
}

provider "azurerm" {
  features {}
}

data "azurerm_resource_group" "this" {
  name = var.resource_group
}

data "azurerm_kubernetes_cluster" "this" {
  name                = var.cluster
  resource_group_name = var.resource_group
}

resource "azurerm_servicebus_namespace" "this" {
  name                = var.namespace
  resource_group_name = data.azurerm_resource_group.this.name
  location            = data.azurerm_resource_group.this.location
  sku                 = var.sku

  # With more than one partition, a batch cannot hold events of several aggregates.
  capacity                     = var.sku == "Premium" ? var.messaging_units : 0
  premium_messaging_partitions = var.sku == "Premium" ? 1 : 0

  # Access by identity only: there are no connection strings.
  local_auth_enabled  = false
  minimum_tls_version = "1.2"
}

resource "azurerm_servicebus_topic" "events" {
  name         = "events"
  namespace_id = azurerm_servicebus_namespace.this.id

  # Both can be set only when the topic is created. Duplicate detection drops the events
  # that a failover publishes again.
  requires_duplicate_detection            = true
  duplicate_detection_history_time_window = "PT10M"
  partitioning_enabled                    = false
}

resource "azurerm_servicebus_subscription" "projector" {
  name     = "projector"
  topic_id = azurerm_servicebus_topic.events.id

  # Sessions keep an aggregate's events in order. They can be set only when the
  # subscription is created.
  requires_session                     = true
  lock_duration                        = "PT1M"
  max_delivery_count                   = 100
  dead_lettering_on_message_expiration = true
}

# A subscription for a consumer of your own, such as the example in ../consumer. The
# projector's subscription is the projector's alone.
resource "azurerm_servicebus_subscription" "consumer" {
  name     = "consumer"
  topic_id = azurerm_servicebus_topic.events.id

  requires_session                     = true
  lock_duration                        = "PT1M"
  max_delivery_count                   = 10
  dead_lettering_on_message_expiration = true
}
