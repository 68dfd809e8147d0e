{{/*
A dashboard of one release. Grafana has one dashboard for each uid, whatever the namespace
or the cluster. Its sidecar writes each key of every ConfigMap into one folder. So the uid
and the key contain the release's name.
*/}}

{{- define "penstock.dashboardName" -}}
{{- $release := list (default "" .root.Values.metrics.clusterName) .root.Release.Namespace .root.Release.Name (include "penstock.fullname" .root) }}
{{- printf "penstock-%s-%s" .component (join "/" $release | sha256sum | trunc 12) }}
{{- end }}

{{- define "penstock.dashboard" -}}
{{- $dashboard := .root.Files.Get (printf "dashboards/%s.json" .component) | fromJson }}
{{- $title := printf "%s (%s/%s)" $dashboard.title .root.Release.Namespace .root.Release.Name }}
{{- $tags := list "penstock" .root.Release.Namespace .root.Release.Name }}
{{- with .root.Values.metrics.clusterName }}
{{- $title = printf "%s %s" $title . }}
{{- $tags = append $tags . }}
{{- end }}
{{- $_ := set $dashboard "uid" (include "penstock.dashboardName" .) }}
{{- $_ := set $dashboard "title" $title }}
{{- $_ := set $dashboard "tags" (uniq $tags) }}
{{- $pods := include "penstock.podPattern" . }}
{{- range $variable := $dashboard.templating.list }}
{{- if eq $variable.name "cluster" }}
{{- with $.root.Values.metrics.clusterName }}
{{- $_ := set $variable "current" (dict "text" . "value" .) }}
{{- end }}
{{- else if eq $variable.name "namespace" }}
{{- $_ := set $variable "current" (dict "text" $.root.Release.Namespace "value" $.root.Release.Namespace) }}
{{- else if eq $variable.name "pod" }}
{{- $_ := set $variable "regex" (printf "/^%s$/" $pods) }}
{{- $_ := set $variable "allValue" $pods }}
{{- end }}
{{- end }}
{{- toPrettyJson $dashboard }}
{{- end }}
