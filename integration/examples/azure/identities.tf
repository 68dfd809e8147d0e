# Each service has its own identity with the one role that it needs. A pod gets the
# identity through the token of its Kubernetes service account.

locals {
  # The chart omits its own name if the release's name contains it.
  prefix = strcontains(var.release, "penstock") ? var.release : "${var.release}-penstock"

  services = {
    publisher = { role = "Azure Service Bus Data Sender", scope = azurerm_servicebus_topic.events.id }
    projector = { role = "Azure Service Bus Data Receiver", scope = azurerm_servicebus_subscription.projector.id }
  }
}

resource "azurerm_user_assigned_identity" "service" {
  for_each = local.services

  name                = "penstock-${each.key}"
  resource_group_name = data.azurerm_resource_group.this.name
  location            = data.azurerm_resource_group.this.location
}

resource "azurerm_federated_identity_credential" "service" {
  for_each = local.services

  name                      = "penstock-${each.key}"
  user_assigned_identity_id = azurerm_user_assigned_identity.service[each.key].id
  issuer                    = data.azurerm_kubernetes_cluster.this.oidc_issuer_url
  subject                   = "system:serviceaccount:${var.kubernetes_namespace}:${local.prefix}-${each.key}"
  audience                  = ["api://AzureADTokenExchange"]
}

resource "azurerm_role_assignment" "service" {
  for_each = local.services

  scope                = each.value.scope
  role_definition_name = each.value.role
  principal_id         = azurerm_user_assigned_identity.service[each.key].principal_id
  principal_type       = "ServicePrincipal"
}
