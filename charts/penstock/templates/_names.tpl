{{/*
What the objects are called, and how they are labelled. A component is a dict of the
root context ("root") and its name ("component"): publisher or projector.
*/}}

{{- define "penstock.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 42 | trimSuffix "-" }}
{{- end }}

{{/*
42 characters leave room for -publisher within the 52 that a StatefulSet's name may
have: its pods carry the name and a hash in a label.
*/}}
{{- define "penstock.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 42 | trimSuffix "-" }}
{{- else }}
{{- $name := include "penstock.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 42 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 42 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "penstock.componentName" -}}
{{- printf "%s-%s" (include "penstock.fullname" .root) .component }}
{{- end }}

{{- define "penstock.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/name: {{ include "penstock.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: penstock
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "penstock.componentLabels" -}}
{{ include "penstock.labels" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* What selectors go by: it never changes in the life of a release. */}}
{{- define "penstock.selectorLabels" -}}
app.kubernetes.io/name: {{ include "penstock.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "penstock.serviceAccountName" -}}
{{- $account := (index .root.Values .component).serviceAccount }}
{{- if $account.create }}
{{- default (include "penstock.componentName" .) $account.name }}
{{- else }}
{{- default "default" $account.name }}
{{- end }}
{{- end }}

{{/* The client id of a component's Azure identity. */}}
{{- define "penstock.clientId" -}}
{{- default .root.Values.azure.workloadIdentity.clientId (index .root.Values .component).workloadIdentity.clientId }}
{{- end }}

{{- define "penstock.leaseName" -}}
{{- default (include "penstock.componentName" (dict "root" . "component" "publisher")) .Values.publisher.lease.name }}
{{- end }}

{{- define "penstock.leaseNamespace" -}}
{{- default .Release.Namespace .Values.publisher.lease.namespace }}
{{- end }}

{{/* "true" where the publishers elect by a Lease. */}}
{{- define "penstock.electsByLease" -}}
{{- if and .Values.publisher.enabled (eq .Values.publisher.election.kind "kubernetes") }}true{{ end }}
{{- end }}

{{/* registry/repository:tag or registry/repository@digest */}}
{{- define "penstock.image" -}}
{{- $image := (index .root.Values .component).image }}
{{- $registry := default .root.Values.image.registry $image.registry }}
{{- $name := ternary (printf "%s/%s" $registry $image.repository) $image.repository (ne $registry "") }}
{{- if $image.digest }}
{{- printf "%s@%s" $name $image.digest }}
{{- else }}
{{- printf "%s:%s" $name (coalesce $image.tag .root.Values.image.tag .root.Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* "true" where projections are mounted, from the values or a ConfigMap. */}}
{{- define "penstock.hasProjectionFiles" -}}
{{- with .Values.projector.projections }}{{ if or .files .existingConfigMap }}true{{ end }}{{ end }}
{{- end }}

{{- define "penstock.projectionsConfigMap" -}}
{{- default (printf "%s-projections" (include "penstock.componentName" (dict "root" . "component" "projector"))) .Values.projector.projections.existingConfigMap }}
{{- end }}

{{/* "true" where the projector counts the sessions that have messages. */}}
{{- define "penstock.countsBacklog" -}}
{{- $interval := .Values.projector.backlog.interval }}
{{- if or (kindIs "invalid" $interval) (regexMatch "[1-9]" (toString $interval)) }}true{{ end }}
{{- end }}

{{/* How PromQL selects the pods of a component. */}}
{{- define "penstock.promSelector" -}}
{{- printf "namespace=%q, pod=~%q" .root.Release.Namespace (printf "%s-.+" (include "penstock.componentName" .)) }}
{{- end }}
