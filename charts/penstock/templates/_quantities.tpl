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
{{- with include "penstock.buffers" $ | fromYaml }}
{{- if gt (float64 .need) $bytes }}
{{ $component }}.resources.limits.memory is {{ $limit }}, and the {{ $component }} can need {{ divf (float64 .need) 1048576 | ceil | int64 }}Mi with {{ with .set }}{{ join " and " . }}{{ else }}its smallest buffers{{ end }}: raise the limit{{ if .set }}, or lower the buffers{{ end }}
{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The buffers of a component, as a map: set has those that the values set, sizes the bytes of the
others by the names of their values, and need the bytes that the container needs at least.
sizes is empty if the service's defaults fit into the memory limit.

A process uses a base and a multiple of each buffer. docs/benchmarks.md has the measurements:
a byte in flight is held as a document and as a message, a loaded read model is held with its
changes and its write, and a received message with its decoded event. If the defaults do not
fit, those that are not set shrink together, to a sixteenth at most.
*/}}
{{- define "penstock.buffers" -}}
{{- $own := index .root.Values .component }}
{{- $base := 134217728.0 }}
{{- $buffers := list }}
{{- if eq .component "publisher" }}
{{- $base = 167772160.0 }}
{{- $buffers = list
  (list "publish.maxInflightBytes" $own.publish.maxInflightBytes 67108864 1.5)
  (list "stream.prefetchBytes" $own.stream.prefetchBytes 16777216 1.5) }}
{{- else }}
{{- $buffers = list
  (list "loadBytes" $own.loadBytes 67108864 3)
  (list "keepBytes" $own.keepBytes 33554432 1)
  (list "sessions.bufferBytes" $own.sessions.bufferBytes 67108864 2) }}
{{- end }}
{{- $set := list }}
{{- $unset := 0.0 }}
{{- range $buffers }}
{{- if kindIs "invalid" (index . 1) }}
{{- $unset = addf $unset (mulf (index . 2) (index . 3)) }}
{{- else }}
{{- $base = addf $base (mulf (float64 (index . 1)) (index . 3)) }}
{{- $set = append $set (printf "%s: %d" (index . 0) (int64 (index . 1))) }}
{{- end }}
{{- end }}
{{- $sizes := dict }}
{{- with include "penstock.bytes" (dig "limits" "memory" "" ($own.resources | default dict)) }}
{{- $left := subf (float64 .) $base }}
{{- if lt $left $unset }}
{{- range $buffers }}
{{- if kindIs "invalid" (index . 1) }}
{{- $_ := set $sizes (index . 0) (mulf (index . 2) (divf $left $unset) | floor | int64 | toString) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- dict "set" $set "sizes" $sizes "need" (addf $base (divf $unset 16) | toString) | toYaml }}
{{- end }}

{{- define "penstock.problems.metrics" -}}
{{- $metrics := .Values.metrics }}
{{- $policy := .Values.networkPolicy }}
{{- if and $metrics.podMonitor.enabled $policy.enabled (not $policy.metrics.from) (not $policy.extraIngress) }}
metrics.podMonitor.enabled and networkPolicy.enabled are true, and networkPolicy.metrics.from is empty, so Prometheus could not reach the pods: name its peers, such as [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
{{ end }}
{{- if $metrics.prometheusRule.enabled }}
{{- $age := int64 $metrics.prometheusRule.thresholds.verifiedAgeSeconds }}
{{- $reconcile := default "1h" .Values.projector.history.reconcile }}
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
