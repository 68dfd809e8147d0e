{{/*
Names and labels of the objects. A component is a dict of the root context ("root") and
its name ("component"): publisher or projector.
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

{{/* The labels that the chart itself gives to every object; no value may set them. */}}
{{- define "penstock.ownLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/name: {{ include "penstock.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: penstock
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end }}

{{/*
Labels are merged as maps, because lists written one after the other can repeat a key.
Some YAML readers refuse a repeated key, and others use its last value.
*/}}
{{- define "penstock.labels" -}}
{{- toYaml (merge (dict) (include "penstock.ownLabels" . | fromYaml) (.Values.commonLabels | default dict)) }}
{{- end }}

{{/* The labels of an object that has additional ones ("more"). */}}
{{- define "penstock.labelsWith" -}}
{{- toYaml (merge (dict) (include "penstock.ownLabels" .root | fromYaml) (.more | default dict) (.root.Values.commonLabels | default dict)) }}
{{- end }}

{{- define "penstock.componentLabels" -}}
{{- toYaml (merge (dict "app.kubernetes.io/component" .component) (include "penstock.labels" .root | fromYaml)) }}
{{- end }}

{{/* The labels of selectors. They never change while a release exists. */}}
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

{{/*
The checkpoint's name. Within a cluster only one release has this namespace and fullname,
because Kubernetes has each object once. A namespace's name has no dot, so two different
pairs never give one name.
*/}}
{{- define "penstock.streamName" -}}
{{- default (printf "%s.%s" .Release.Namespace (include "penstock.fullname" .)) .Values.publisher.stream.name }}
{{- end }}

{{/*
The Lease's name, or the lock's in MongoDB. The fullname is unique only in the release's
own namespace; elsewhere the name includes the namespace. The lock's name contains the
checkpoint's: releases in two clusters can have one fullname, and each checkpoint needs a
leader.
*/}}
{{- define "penstock.leaseName" -}}
{{- $lock := printf "%s-publisher" (include "penstock.streamName" .) }}
{{- $name := ternary $lock (include "penstock.leaseRole" .) (eq .Values.publisher.election.kind "mongodb") }}
{{- default $name .Values.publisher.lease.name }}
{{- end }}

{{/* The name of the Role, which is in the namespace of the Lease. */}}
{{- define "penstock.leaseRole" -}}
{{- $name := include "penstock.componentName" (dict "root" . "component" "publisher") }}
{{- $beside := eq (include "penstock.leaseNamespace" .) .Release.Namespace }}
{{- ternary $name (printf "%s.%s" .Release.Namespace $name) $beside }}
{{- end }}

{{- define "penstock.leaseNamespace" -}}
{{- default .Release.Namespace .Values.publisher.lease.namespace }}
{{- end }}

{{/* "true" if the publishers elect by a Lease. */}}
{{- define "penstock.electsByLease" -}}
{{- if and .Values.publisher.enabled (eq .Values.publisher.election.kind "kubernetes") }}true{{ end }}
{{- end }}

{{/* registry/repository:tag or registry/repository@digest */}}
{{- define "penstock.image" -}}
{{- $image := (index .root.Values .component).image }}
{{- $registry := default .root.Values.image.registry $image.registry }}
{{- $name := ternary (printf "%s/%s" $registry $image.repository) $image.repository (not (empty $registry)) }}
{{- if $image.digest }}
{{- printf "%s@%s" $name $image.digest }}
{{- else }}
{{- printf "%s:%s" $name (coalesce $image.tag .root.Values.image.tag .root.Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* "true" if projections are mounted, from the values or a ConfigMap. */}}
{{- define "penstock.hasProjectionFiles" -}}
{{- with .Values.projector.projections }}{{ if or .files .existingConfigMap }}true{{ end }}{{ end }}
{{- end }}

{{/*
The pod annotations that hold the projections of the values. A pod always starts with the
projections of its own revision, because no separate object holds them that an upgrade
could change or delete.
*/}}
{{- define "penstock.projectionAnnotations" -}}
{{- $annotations := dict }}
{{- range $file, $text := .Values.projector.projections.files }}
{{- $_ := set $annotations (printf "projections.penstock.dev/%s" $file) $text }}
{{- end }}
{{- /* No trimming here: the last line break belongs to the last file's text. */}}
{{ toYaml $annotations }}
{{ end }}

{{/* "true" if the pods log in to MongoDB with a token that the chart must mount. */}}
{{- define "penstock.mountsMongoDBToken" -}}
{{- if and .Values.mongodb.oidc.enabled (not .Values.azure.workloadIdentity.enabled) }}true{{ end }}
{{- end }}

{{/* "true" if the projector counts the sessions that have messages. */}}
{{- define "penstock.countsBacklog" -}}
{{- $interval := .Values.projector.backlog.interval }}
{{- if or (kindIs "invalid" $interval) (regexMatch "[1-9]" (toString $interval)) }}true{{ end }}
{{- end }}

{{/*
A regular expression for the pods' names. It matches only this release, not a release
whose name begins with this release's name. If the name of a Deployment is long, its pods'
names lack the middle part.
*/}}
{{- define "penstock.podPattern" -}}
{{- printf "%s-%s" (include "penstock.componentName" .) (ternary "[0-9]+" "[a-z0-9]+(-[a-z0-9]+)?" (eq .component "publisher")) }}
{{- end }}

{{/* How PromQL selects the pods of a component. */}}
{{- define "penstock.promSelector" -}}
{{- printf "namespace=%q, pod=~%q" .root.Release.Namespace (include "penstock.podPattern" .) }}
{{- end }}
