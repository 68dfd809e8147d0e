{{/*
Checks that the schema cannot express. Every problem is one line that names a value and
ends with the remedy. All problems are reported together.
*/}}

{{- define "penstock.validate" -}}
{{- $problems := "" }}
{{- if not (or .Values.publisher.enabled .Values.projector.enabled) }}
{{- $problems = "publisher.enabled and projector.enabled are both false: enable at least one of them\n" }}
{{- end }}
{{- $problems = printf "%s%s" $problems (include "penstock.problems.stores" .) }}
{{- $problems = printf "%s%s" $problems (include "penstock.problems.serviceBus" .) }}
{{- if and .Values.tracing.enabled (not .Values.tracing.endpoint) }}
{{- $problems = printf "%s\n%s" $problems "tracing.endpoint is not set: set it to the URL of the collector, such as http://collector.observability:4318\n" }}
{{- end }}
{{- $problems = printf "%s%s%s%s%s" $problems (include "penstock.problems.fields" .) (include "penstock.problems.names" .) (include "penstock.problems.labels" .) (include "penstock.problems.metrics" .) }}
{{- $problems = printf "%s%s" $problems (include "penstock.problems.ports" .) }}
{{- if .Values.publisher.enabled }}
{{- $problems = printf "%s%s%s" $problems (include "penstock.problems.pods" (dict "root" . "component" "publisher")) (include "penstock.problems.publisher" .) }}
{{- end }}
{{- if .Values.projector.enabled }}
{{- $problems = printf "%s%s%s" $problems (include "penstock.problems.pods" (dict "root" . "component" "projector")) (include "penstock.problems.projector" .) }}
{{- $problems = printf "%s%s" $problems (include "penstock.problems.autoscaling" .) }}
{{- end }}
{{- $lines := list }}
{{- range splitList "\n" $problems }}{{ with trim . }}{{ $lines = append $lines (printf "  - %s" .) }}{{ end }}{{ end }}
{{- if $lines }}
{{- fail (printf "\n\nPenstock cannot be installed with these values:\n%s\n" (join "\n" $lines)) }}
{{- end }}
{{- end }}

{{- define "penstock.problems.stores" -}}
{{- $mongodb := .Values.mongodb }}
{{- $root := . }}
{{- range $component := list "publisher" "projector" }}
{{- $missing := list }}
{{- if not $mongodb.events.existingSecret }}{{ $missing = append $missing "events" }}{{ end }}
{{- if not $mongodb.state.existingSecret }}{{ $missing = append $missing "state" }}{{ end }}
{{- if and (eq $component "projector") (not $mongodb.readModels.existingSecret) }}{{ $missing = append $missing "readModels" }}{{ end }}
{{- $secret := include "penstock.ownSecret" (dict "values" $mongodb "component" $component) | fromYaml }}
{{- if and (index $root.Values $component).enabled $missing (not $secret.existingSecret) }}
mongodb.{{ $component }}.existingSecret is not set: name a Secret whose key {{ (index $mongodb $component).existingSecretKey }} holds the connection string of the {{ $component }}'s user, or one each in mongodb.{ {{- join "," $missing -}} }.existingSecret, or one for both services in mongodb.existingSecret
{{ end }}
{{- end }}
{{- end }}

{{- define "penstock.problems.fields" -}}
{{- $seen := dict }}
{{- $fields := .Values.events.fields }}
{{- range $field := list "aggregateId" "aggregateType" "eventId" "eventType" "timestamp" "payload" "metadata" }}
{{- $name := default $field (get $fields $field) }}
{{- if hasKey $seen $name }}
events.fields.{{ $field }} and events.fields.{{ get $seen $name }} are both {{ $name }}: give each its own field
{{ end }}
{{- $_ := set $seen $name $field }}
{{- end }}
{{- end }}

{{- define "penstock.problems.serviceBus" -}}
{{- $serviceBus := .Values.serviceBus }}
{{- $root := . }}
{{- range $component := list "publisher" "projector" }}
{{- if (index $root.Values $component).enabled }}
{{- $secret := include "penstock.ownSecret" (dict "values" $serviceBus "component" $component) | fromYaml }}
{{- $name := ternary "serviceBus.existingSecret" (printf "serviceBus.%s.existingSecret" $component) (empty (index $serviceBus $component).existingSecret) }}
{{- if and $serviceBus.namespace $secret.existingSecret }}
serviceBus.namespace and {{ $name }} are both set: keep the namespace to use an Azure identity, or the Secret to use its connection string
{{ else if not (or $serviceBus.namespace $secret.existingSecret) }}
serviceBus.namespace and serviceBus.{{ $component }}.existingSecret are both empty: set the namespace to use an Azure identity, or name a Secret whose key {{ (index $serviceBus $component).existingSecretKey }} holds a connection string with the right {{ ternary "Send" "Listen" (eq $component "publisher") }}
{{ end }}
{{- end }}
{{- end }}
{{- if not $serviceBus.topic }}
serviceBus.topic is not set: set it to the name of the topic
{{ end }}
{{- if and .Values.projector.enabled (not $serviceBus.subscription) }}
serviceBus.subscription is not set: set it to the name of a subscription that requires sessions
{{ end }}
{{- end }}

{{- define "penstock.problems.pods" -}}
{{- $component := .component }}
{{- $own := index .root.Values $component }}
{{- $identity := .root.Values.azure.workloadIdentity }}
{{- if and $identity.enabled $own.serviceAccount.create (not (include "penstock.clientId" .)) (not (hasKey ($own.serviceAccount.annotations | default dict) "azure.workload.identity/client-id")) }}
azure.workloadIdentity.clientId is not set: set it, or {{ $component }}.workloadIdentity.clientId, to the client id of the identity
{{ end }}
{{- if and (not $identity.enabled) (or $identity.clientId $own.workloadIdentity.clientId) }}
azure.workloadIdentity.enabled is false though there is a client id for the {{ $component }}: set it to true
{{ end }}
{{- $least := include "penstock.leastGracePeriod" . | int64 }}
{{- if lt (include "penstock.gracePeriod" . | int64) $least }}
{{ $component }}.terminationGracePeriodSeconds is shorter than a stop can take: use at least {{ $least }}, or null to have it computed
{{ end }}
{{- if and (eq $component "projector") $own.query.enabled (eq (int64 $own.query.port) (int64 $own.adminPort)) }}
projector.query.port is projector.adminPort, {{ int64 $own.adminPort }}: use another port
{{ end }}
{{- $set := list }}
{{- range include (printf "penstock.env.%s" $component) . | fromYamlArray }}{{ $set = append $set .name }}{{ end }}
{{- $names := include "penstock.env.extraNames" . | fromYamlArray }}
{{- range $names | uniq }}
{{- if has . $set }}
{{ $component }}.extraEnv sets {{ . }}, which the chart sets: use the chart's value for it
{{ else if and (hasSuffix "_FILE" .) (has (trimSuffix "_FILE" .) $set) }}
{{ $component }}.extraEnv sets {{ . }}, and the chart sets {{ trimSuffix "_FILE" . }}: a service takes only one of them, so use the chart's value
{{ end }}
{{- end }}
{{- $repeated := list }}
{{- range $at, $name := $names }}
{{- if has $name (slice $names 0 $at) }}{{ $repeated = append $repeated $name }}{{ end }}
{{- end }}
{{- range uniq $repeated }}
{{ $component }}.extraEnv sets {{ . }} more than once: keep one of them
{{ end }}
{{- range $name, $_ := include "penstock.ownPodLabels" . | fromYaml }}
{{- if hasKey ($own.podLabels | default dict) $name }}
{{ $component }}.podLabels sets {{ $name }}, which the chart sets: choose another label
{{ end }}
{{- end }}
{{- $containers := list $component }}
{{- if $own.preflight.enabled }}{{ $containers = append $containers "preflight" }}{{ end }}
{{- if and (eq $component "projector") (dig "projections" "check" false $own) }}{{ $containers = append $containers "check-projections" }}{{ end }}
{{- range $own.extraContainers }}
{{- if has .name $containers }}
{{ $component }}.extraContainers has a container named {{ .name }}, as the chart has: choose another name
{{ end }}
{{- end }}
{{- $volumes := list }}
{{- range include "penstock.ownVolumes" . | fromYamlArray }}{{ $volumes = append $volumes .name }}{{ end }}
{{- range $own.extraVolumes }}
{{- if has .name $volumes }}
{{ $component }}.extraVolumes has a volume named {{ .name }}, as the chart has: choose another name
{{ end }}
{{- end }}
{{- $mounts := dict }}
{{- range include "penstock.ownVolumeMounts" . | fromYamlArray }}{{ $_ := set $mounts .mountPath .name }}{{ end }}
{{- range $own.extraVolumeMounts }}
{{- if hasKey $mounts (trimSuffix "/" (toString .mountPath)) }}
{{ $component }}.extraVolumeMounts mounts {{ .name }} at {{ .mountPath }}, where the chart mounts {{ get $mounts (trimSuffix "/" .mountPath) }}: choose another path
{{ end }}
{{- end }}
{{- include "penstock.problems.memory" . }}
{{- include "penstock.problems.durations" . }}
{{- end }}

{{- define "penstock.problems.names" -}}
{{- $fullname := include "penstock.fullname" . }}
{{- /* Before 1.36 the name of a Service must begin with a letter. */}}
{{- $digit := and (regexMatch "^[0-9]" $fullname) (semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version) }}
{{- if or (contains "." $fullname) $digit }}
the names of the objects would begin with {{ $fullname }}, and no Service can have such a name: set fullnameOverride to lower-case letters, digits and -, with a letter first
{{ end }}
{{- $publisher := .Values.publisher }}
{{- $projector := .Values.projector }}
{{- if and $publisher.enabled $projector.enabled $publisher.serviceAccount.create $projector.serviceAccount.create }}
{{- $name := include "penstock.serviceAccountName" (dict "root" . "component" "publisher") }}
{{- if eq $name (include "penstock.serviceAccountName" (dict "root" . "component" "projector")) }}
publisher.serviceAccount.name and projector.serviceAccount.name both create {{ $name }}: use two names, or set projector.serviceAccount.create to false
{{ end }}
{{- end }}
{{- end }}

{{- define "penstock.problems.labels" -}}
{{- $own := merge (dict "app.kubernetes.io/component" "" "azure.workload.identity/use" "") (include "penstock.ownLabels" . | fromYaml) }}
{{- $metrics := .Values.metrics }}
{{- $given := dict "commonLabels" .Values.commonLabels "metrics.podMonitor.labels" $metrics.podMonitor.labels "metrics.prometheusRule.labels" $metrics.prometheusRule.labels "metrics.dashboards.labels" $metrics.dashboards.labels }}
{{- range $value, $labels := $given }}
{{- range $name := keys ($labels | default dict) | sortAlpha }}
{{- if hasKey $own $name }}
{{ $value }} sets {{ $name }}, which the chart sets: choose another label
{{ end }}
{{- end }}
{{- end }}
{{- range $name := list "release" "namespace" "cluster" "severity" }}
{{- if hasKey ($metrics.prometheusRule.alertLabels | default dict) $name }}
metrics.prometheusRule.alertLabels sets {{ $name }}, which the chart sets: choose another label{{ if eq $name "cluster" }}, or use metrics.clusterName{{ end }}
{{ end }}
{{- end }}
{{- end }}

{{- define "penstock.problems.publisher" -}}
{{- $own := .Values.publisher }}
{{- $lease := $own.lease }}
{{- if and (include "penstock.electsByLease" .) $own.rbac.create (not $own.serviceAccount.create) (not $own.serviceAccount.name) }}
publisher.serviceAccount.name is not set and publisher.serviceAccount.create is false, so every pod of the namespace that has no account of its own would get the right to the Lease: name an account, or set create to true
{{ end }}
{{- if le (int64 $lease.durationSeconds) (int64 $lease.renewDeadlineSeconds) }}
publisher.lease.renewDeadlineSeconds is not less than publisher.lease.durationSeconds, so another pod could lead before the leader gives up: use less than {{ int64 $lease.durationSeconds }}
{{ end }}
{{- if le (mul 10 (int64 $lease.renewDeadlineSeconds)) (mul 12 (int64 $lease.retryPeriodSeconds)) }}
publisher.lease.renewDeadlineSeconds is not more than 1.2 times publisher.lease.retryPeriodSeconds, so the leader would have only one attempt to renew: raise it, or lower the retry period
{{ end }}
{{- end }}

{{- define "penstock.problems.ports" -}}
{{- $query := .Values.projector.query }}
{{- if and .Values.projector.enabled $query.enabled .Values.networkPolicy.enabled (not $query.from) (not .Values.networkPolicy.extraIngress) }}
projector.query.enabled and networkPolicy.enabled are true, and projector.query.from is empty, so nobody could ask for /applied: name its peers, such as [{podSelector: {matchLabels: {app: shop}}}]
{{ end }}
{{- range $peer := list "dns" "https" "serviceBus" "mongodb" "apiServer" "tracing" }}
{{- range (index $.Values.networkPolicy $peer).ports }}
{{- $ends := splitList "-" (kindIs "string" . | ternary . (int64 . | toString)) }}
{{- if or (gt (int64 (first $ends)) (int64 (last $ends))) (gt (int64 (last $ends)) 65535) }}
networkPolicy.{{ $peer }}.ports has {{ . }}, which is no range of ports: write the lower port first, and use at most 65535
{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "penstock.problems.projector" -}}
{{- $projections := .Values.projector.projections }}
{{- if and $projections.files $projections.existingConfigMap }}
projector.projections.files and projector.projections.existingConfigMap are both set: keep one of them
{{ else if not (or $projections.files $projections.existingConfigMap $projections.inCode) }}
projector.projections has neither files nor existingConfigMap: give the YAML of the projections in files, or name a ConfigMap that holds it
{{ end }}
{{- $declared := 0 }}
{{- range $name, $_ := $projections.files }}
{{- if not (regexMatch "_test[.]ya?ml$" $name) }}{{ $declared = add1 $declared }}{{ end }}
{{- end }}
{{- if and $projections.files (not $declared) }}
projector.projections.files has only tests, whose names end in _test: add a file of projections
{{ end }}
{{- $autoscaling := .Values.projector.autoscaling }}
{{- if and $projections.awaitLive.enabled (lt (int64 (ternary .Values.projector.replicas $autoscaling.minReplicas (eq $autoscaling.mode "none"))) 1) }}
projector.projections.awaitLive.enabled is true, and no projector may run: use at least 1 replica, or set it to false
{{ end }}
{{- $size := 0 }}
{{- range $name, $text := $projections.files }}{{ $size = add $size (len $name) (len $text) }}{{ end }}
{{- if gt $size 200000 }}
projector.projections.files has {{ $size }} bytes, and the annotations of a pod take 256 KiB in all: use at most 200000, or name your own ConfigMap in projector.projections.existingConfigMap, or put the projections into an image and set projector.projections.inCode
{{ end }}
{{- $reconcile := .Values.projector.history.reconcile }}
{{- $interval := include "penstock.seconds" $reconcile }}
{{- if and $interval (lt (int64 $interval) 10) }}
projector.history.reconcile is {{ $reconcile }}: use at least 10s, or "off"
{{ end }}
{{- end }}

{{- define "penstock.problems.autoscaling" -}}
{{- $autoscaling := .Values.projector.autoscaling }}
{{- $keda := $autoscaling.keda }}
{{- if ne $autoscaling.mode "none" }}
{{- if gt (int64 $autoscaling.minReplicas) (int64 $autoscaling.maxReplicas) }}
projector.autoscaling.minReplicas is {{ int64 $autoscaling.minReplicas }}, more than projector.autoscaling.maxReplicas, which is {{ int64 $autoscaling.maxReplicas }}: use at most maxReplicas
{{ end }}
{{- end }}
{{- if eq $autoscaling.mode "hpa" }}
{{- if lt (int64 $autoscaling.minReplicas) 1 }}
projector.autoscaling.minReplicas is 0, and mode hpa cannot scale to zero: use at least 1, or mode keda
{{ end }}
{{- if not $autoscaling.hpa.metrics }}
{{- if not (include "penstock.cpuRequest" .Values.projector) }}
projector.resources.requests.cpu is not set, and mode hpa measures CPU use against it: set it, or projector.autoscaling.hpa.metrics
{{ end }}
{{- range .Values.projector.extraContainers }}
{{- if not (include "penstock.cpuRequest" .) }}
projector.extraContainers has {{ .name }} without resources.requests.cpu, and mode hpa measures the CPU use of the whole pod: set it, or projector.autoscaling.hpa.metrics
{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- if eq $autoscaling.mode "keda" }}
{{- if not (or $keda.messages.enabled $keda.sessions.enabled) }}
projector.autoscaling.keda has no trigger: enable messages, sessions or both
{{ end }}
{{- if and (lt (int64 $autoscaling.minReplicas) 1) (not $keda.messages.enabled) }}
projector.autoscaling.minReplicas is 0 without projector.autoscaling.keda.messages.enabled: without a running pod, nothing counts the sessions that start the first one
{{ end }}
{{- if and $keda.sessions.enabled (not $keda.sessions.serverAddress) }}
projector.autoscaling.keda.sessions.serverAddress is not set: set it to the address of Prometheus
{{ end }}
{{- if and $keda.sessions.enabled (not $keda.sessions.query) (ne (include "penstock.countsBacklog" .) "true") }}
projector.backlog.interval is {{ .Values.projector.backlog.interval }}, so that no pod counts the sessions that projector.autoscaling.keda.sessions asks for: set it to 30s, or disable that trigger
{{ end }}
{{- $needed := mul (int64 $keda.sessions.perReplica) (int64 $autoscaling.maxReplicas) }}
{{- $counted := default 5000 .Values.projector.backlog.limit }}
{{- if and $keda.sessions.enabled (not $keda.sessions.query) (lt (int64 $counted) $needed) }}
projector.backlog.limit is {{ int64 $counted }}, but only {{ $needed }} sessions (projector.autoscaling.keda.sessions.perReplica × projector.autoscaling.maxReplicas) scale up to maxReplicas: use at least {{ $needed }}
{{ end }}
{{- if and $keda.sessions.azureIdentity (not .Values.serviceBus.namespace) $keda.messages.enabled }}
projector.autoscaling.keda.sessions.azureIdentity is true though messages are read by a connection string: set serviceBus.namespace instead of Secrets, or disable one of the triggers
{{ end }}
{{- if and $keda.messages.enabled (not (or .Values.serviceBus.namespace $keda.existingSecret .Values.serviceBus.existingSecret)) }}
projector.autoscaling.keda.existingSecret is not set: name a Secret with a connection string that has the Manage claim, which the projector's own does not need
{{ end }}
{{- if and (eq (default "" $keda.fallback.behavior) "scalingModifiers") (not (and $keda.messages.enabled $keda.sessions.enabled)) }}
projector.autoscaling.keda.fallback.behavior is scalingModifiers, which needs both triggers: enable messages and sessions, or use null
{{ end }}
{{- if and $keda.existingSecret .Values.serviceBus.namespace }}
projector.autoscaling.keda.existingSecret is set though serviceBus.namespace makes KEDA use an Azure identity: remove it
{{ end }}
{{- end }}
{{- end }}

{{/* The CPU request of a container with resources. Kubernetes takes the limit without one. */}}
{{- define "penstock.cpuRequest" -}}
{{- $resources := .resources | default dict }}
{{- coalesce (dig "requests" "cpu" "" $resources) (dig "limits" "cpu" "" $resources) | default "" }}
{{- end }}
