output "values" {
  description = "Values for the chart: terraform output -raw values > azure.yaml"
  value       = <<-YAML
    azure:
      workloadIdentity:
        enabled: true
    serviceBus:
      namespace: ${azurerm_servicebus_namespace.this.name}.servicebus.windows.net
      topic: ${azurerm_servicebus_topic.events.name}
      subscription: ${azurerm_servicebus_subscription.projector.name}
    publisher:
      workloadIdentity:
        clientId: ${azurerm_user_assigned_identity.service["publisher"].client_id}
    projector:
      workloadIdentity:
        clientId: ${azurerm_user_assigned_identity.service["projector"].client_id}
  YAML
}
