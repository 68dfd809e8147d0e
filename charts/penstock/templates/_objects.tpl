{{/* Objects that both services have. The context is as in _pod.tpl. */}}

{{- define "penstock.serviceAccount" -}}
{{- $annotations := (index .root.Values .component).serviceAccount.annotations | default dict }}
{{- if .root.Values.azure.workloadIdentity.enabled }}
{{- $identity := dict }}
{{- with include "penstock.clientId" . }}{{ $_ := set $identity "azure.workload.identity/client-id" . }}{{ end }}
{{- with .root.Values.azure.workloadIdentity.tenantId }}{{ $_ := set $identity "azure.workload.identity/tenant-id" . }}{{ end }}
{{- $annotations = merge (dict) $annotations $identity }}
{{- end -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "penstock.serviceAccountName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "penstock.componentLabels" . | nindent 4 }}
  {{- with $annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}

{{- define "penstock.podDisruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "penstock.componentName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "penstock.componentLabels" . | nindent 4 }}
spec:
  {{- $most := (index .root.Values .component).podDisruptionBudget.maxUnavailable }}
  maxUnavailable: {{ kindIs "string" $most | ternary $most (int64 $most) }}
  # A pod that is not ready does no work, so it must not block the drain of its node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "penstock.selectorLabels" . | nindent 6 }}
{{- end }}

{{- define "penstock.networkPolicy" -}}
{{- $policy := .root.Values.networkPolicy -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "penstock.componentName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "penstock.componentLabels" . | nindent 4 }}
spec:
  podSelector:
    {{- $labels := include "penstock.selectorLabels" . | fromYaml }}
    {{- if and (eq .component "projector") .root.Values.projector.projections.awaitLive.enabled }}
    matchLabels:
      {{- omit $labels "app.kubernetes.io/component" | toYaml | nindent 6 }}
    matchExpressions:
      - key: app.kubernetes.io/component
        operator: In
        values: [projector, await-live]
    {{- else }}
    matchLabels:
      {{- toYaml $labels | nindent 6 }}
    {{- end }}
  policyTypes: [Ingress, Egress]
  {{- $admin := $policy.metrics.from | default list }}
  {{- if .root.Values.tests.enabled }}
  {{- $admin = append $admin (dict "podSelector" (dict "matchLabels" (include "penstock.selectorLabels" (dict "root" .root "component" "test") | fromYaml))) }}
  {{- end }}
  # A kubelet reaches the pods of its node whatever a policy says.
  ingress:
    {{- with $admin }}
    - ports:
        - port: admin
          protocol: TCP
      from:
        {{- toYaml . | nindent 8 }}
    {{- end }}
    {{- if and (eq .component "projector") .root.Values.projector.query.enabled }}
    {{- with .root.Values.projector.query.from }}
    - ports:
        - port: query
          protocol: TCP
      from:
        {{- toYaml . | nindent 8 }}
    {{- end }}
    {{- end }}
    {{- with $policy.extraIngress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  egress:
    {{- include "penstock.egressRule" (dict "to" $policy.dns.to "ports" $policy.dns.ports "protocols" (list "UDP" "TCP")) | nindent 4 }}
    {{- include "penstock.egressRule" (dict "to" $policy.https.to "ports" $policy.https.ports) | nindent 4 }}
    {{- $ports := $policy.serviceBus.ports }}
    {{- if eq (default "" .root.Values.serviceBus.transport) "websocket" }}{{ $ports = append $ports "443" }}{{ end }}
    {{- include "penstock.egressRule" (dict "to" $policy.serviceBus.to "ports" $ports) | nindent 4 }}
    {{- include "penstock.egressRule" (dict "to" $policy.mongodb.to "ports" $policy.mongodb.ports) | nindent 4 }}
    {{- if and (eq .component "publisher") (eq (include "penstock.electsByLease" .root) "true") }}
    {{- include "penstock.egressRule" (dict "to" $policy.apiServer.to "ports" $policy.apiServer.ports) | nindent 4 }}
    {{- end }}
    {{- if and .root.Values.serviceBus.namespace (not .root.Values.azure.workloadIdentity.enabled) }}
    # The identity of the node.
    {{- include "penstock.egressRule" (dict "to" (list (dict "ipBlock" (dict "cidr" "169.254.169.254/32"))) "ports" (list "80")) | nindent 4 }}
    {{- end }}
    {{- if .root.Values.tracing.enabled }}
    {{- $ports := $policy.tracing.ports }}
    {{- $endpoint := default "" .root.Values.tracing.endpoint }}
    {{- with default (ternary ":443" (ternary ":80" "" (hasPrefix "http:" $endpoint)) (hasPrefix "https:" $endpoint)) (regexFind ":[0-9]+(/|$)" $endpoint) }}
    {{- $ports = append $ports (trimAll ":/" .) }}
    {{- end }}
    {{- include "penstock.egressRule" (dict "to" $policy.tracing.to "ports" $ports) | nindent 4 }}
    {{- end }}
    {{- with $policy.extraEgress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- define "penstock.egressRule" -}}
{{- $protocols := default (list "TCP") .protocols }}
{{- $ports := list }}
{{- range .ports }}{{ $ports = append $ports (kindIs "string" . | ternary . (int64 . | toString)) }}{{ end -}}
- ports:
    {{- range $port := uniq $ports }}
    {{- $range := splitList "-" $port }}
    {{- range $protocol := $protocols }}
    - port: {{ first $range | int64 }}
      {{- if gt (len $range) 1 }}
      endPort: {{ last $range | int64 }}
      {{- end }}
      protocol: {{ $protocol }}
    {{- end }}
    {{- end }}
  {{- with .to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
