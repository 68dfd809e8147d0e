{{/* Quantities and durations as numbers, and the checks that compare them. */}}

{{/*
Bytes of a quantity of memory such as 512Mi or 5e8, with fractions; empty if it is none. The
unit m means thousandths. A quantity has a unit or an exponent: 5E is a unit, 5E8 an exponent.
*/}}
{{- define "penstock.bytes" -}}
{{- $quantity := toString . }}
{{- $number := regexFind "^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)" $quantity }}
{{- $units := dict "n" 1e-9 "u" 1e-6 "m" 0.001 "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 }}
{{- if regexMatch "^[eE][+-]?[0-9]+$" (trimPrefix $number $quantity) }}{{ $number = $quantity }}{{ end }}
{{- $unit := trimPrefix $number $quantity }}
{{- if and $number (hasKey $units $unit) }}{{ mulf (float64 $number) (float64 (get $units $unit)) }}{{ end }}
{{- end }}

{{/* Seconds of a Go duration such as 1h30m, rounded down; empty if it is none. */}}
{{- define "penstock.seconds" -}}
{{- with include "penstock.milliseconds" . }}{{ divf (float64 .) 1000 | int64 }}{{ end }}
{{- end }}

{{/* Milliseconds of a Go duration, with fractions; empty if it is none. */}}
{{- define "penstock.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1e3 "m" 6e4 "h" 3.6e6 }}
{{- $duration := toString (default "" .) }}
{{- if regexMatch "^([0-9]+([.][0-9]+)?(ms|s|m|h))+$" $duration }}
{{- $sum := 0.0 }}
{{- range regexFindAll "[0-9]+([.][0-9]+)?(ms|s|m|h)" $duration -1 }}
{{- $sum = addf $sum (mulf (float64 (regexFind "^[0-9.]+" .)) (float64 (get $units (regexFind "[a-z]+$" .)))) }}
{{- end }}
{{- $sum }}
{{- end }}
{{- end }}

{{/*
The durations that the service would refuse at its start. Each has its bounds in
milliseconds, 0 for none, and the remedy.
*/}}
{{- define "penstock.problems.durations" -}}
{{- $component := .component }}
{{- $own := index .root.Values $component }}
{{- $bounds := list }}
{{- if eq $component "publisher" }}
{{- $bounds = list
  (list "publish.checkpointInterval" $own.publish.checkpointInterval 10 60000 "10ms to 1m")
  (list "publish.fatalAfter" $own.publish.fatalAfter 0 86400000 "0s to 24h")
  (list "stream.silence" $own.stream.silence 10000.000001 0 "more than 10s, such as 1m") }}
{{- else }}
{{- $bounds = list
  (list "fatalAfter" $own.fatalAfter 0 86400000 "0s to 24h")
  (list "flushInterval" $own.flushInterval 0.000001 1000 "more than 0s, and at most 1s")
  (list "sessions.tenure" $own.sessions.tenure 1000 0 "at least 1s") }}
{{- end }}
{{- range $bounds }}
{{- $milliseconds := include "penstock.milliseconds" (index . 1) }}
{{- $most := index . 3 | float64 }}
{{- if and $milliseconds (or (lt (float64 $milliseconds) (index . 2 | float64)) (and $most (gt (float64 $milliseconds) $most))) }}
{{ $component }}.{{ index . 0 }} is {{ index . 1 }}: use {{ index . 4 }}
{{ end }}
{{- end }}
{{- end }}

{{- define "penstock.problems.memory" -}}
{{- $component := .component }}
{{- $own := index .root.Values $component }}
{{- $request := dig "requests" "memory" "" ($own.resources | default dict) }}
{{- $limit := dig "limits" "memory" "" ($own.resources | default dict) }}
{{- range $kind, $quantity := dict "requests" $request "limits" $limit }}
{{- $bytes := include "penstock.bytes" $quantity }}
{{- if and $bytes (lt (float64 $bytes) 1048576.0) }}
{{ $component }}.resources.{{ $kind }}.memory is {{ $quantity }}, which is less than 1 MiB: use a larger unit, such as {{ regexFind "^[0-9.]+" (toString $quantity) }}Mi
{{ end }}
{{- end }}
{{- with include "penstock.bytes" $limit }}
{{- $bytes := float64 . }}
{{- if and (include "penstock.bytes" $request) (gt (include "penstock.bytes" $request | float64) $bytes) }}
{{ $component }}.resources.requests.memory is {{ $request }}, more than {{ $component }}.resources.limits.memory, which is {{ $limit }}: use at most the limit
{{ end }}
{{- $buffers := dict }}
{{- if eq $component "publisher" }}
{{- $buffers = dict "publisher.publish.maxInflightBytes" $own.publish.maxInflightBytes "publisher.stream.prefetchBytes" $own.stream.prefetchBytes }}
{{- else }}
{{- $buffers = dict "projector.keepBytes" $own.keepBytes "projector.loadBytes" $own.loadBytes "projector.sessions.bufferBytes" $own.sessions.bufferBytes }}
{{- end }}
{{- $sum := 0 }}
{{- $names := list }}
{{- range $name, $size := $buffers }}
{{- if $size }}{{ $sum = add $sum (int64 $size) }}{{ $names = append $names $name }}{{ end }}
{{- end }}
{{- if gt (float64 $sum) $bytes }}
{{ $sum }} bytes of buffers ({{ join " + " $names }}) do not fit into {{ $component }}.resources.limits.memory, which is {{ $limit }}: lower the buffers, or raise the limit
{{ end }}
{{- end }}
{{- end }}

{{- define "penstock.problems.metrics" -}}
{{- $metrics := .Values.metrics }}
{{- $policy := .Values.networkPolicy }}
{{- if and $metrics.podMonitor.enabled $policy.enabled (not $policy.metrics.from) (not $policy.extraIngress) }}
metrics.podMonitor.enabled and networkPolicy.enabled are true, and networkPolicy.metrics.from is empty, so Prometheus could not reach the pods: name its peers, such as [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
{{ end }}
{{- if $metrics.prometheusRule.enabled }}
{{- $age := int64 $metrics.prometheusRule.thresholds.verifiedAgeSeconds }}
{{- $reconcile := .Values.projector.history.reconcile }}
{{- $interval := include "penstock.seconds" $reconcile }}
{{- if and .Values.projector.enabled $interval (le $age (int64 $interval)) }}
metrics.prometheusRule.thresholds.verifiedAgeSeconds is {{ $age }}, and projector.history.reconcile is {{ $reconcile }}: PenstockProjectorNotVerified would fire before each comparison; use about three times that interval, {{ mul 3 (int64 $interval) }}
{{ end }}
{{- $scrape := include "penstock.seconds" $metrics.podMonitor.interval }}
{{- if and $metrics.podMonitor.enabled $scrape (gt (int64 $scrape) 120) }}
metrics.podMonitor.interval is {{ $metrics.podMonitor.interval }}, and alerts need two scrapes within 5 minutes: use at most 2m
{{ end }}
{{- end }}
{{- end }}
