{{/*
Environment variables. Every list is YAML, for include and fromYamlArray. If a value is
null or empty, its variable is not set, and the service uses its default.
*/}}

{{/* A list of pairs [name, value] as variables. */}}
{{- define "penstock.env.plain" -}}
{{- range . }}
{{- $value := index . 1 }}
{{- /* Helm reads every number as a float, and would write large ones as 1e+06. */}}
{{- if and (kindIs "float64" $value) (eq (floor $value) $value) }}{{ $value = int64 $value }}{{ end }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
- name: {{ index . 0 }}
  value: {{ toString $value | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* The Secret of a service: its own, or else the shared one. The context has the values of
mongodb or serviceBus ("values") and the component. */}}
{{- define "penstock.ownSecret" -}}
{{- $own := index .values .component }}
{{- if $own.existingSecret }}
{{- toYaml $own }}
{{- else }}
{{- toYaml (pick .values "existingSecret" "existingSecretKey") }}
{{- end }}
{{- end }}

{{/* The variables of a component's Secrets, as a list: name, secret, key. */}}
{{- define "penstock.secretVariables" -}}
{{- $mongodb := .root.Values.mongodb }}
{{- $own := include "penstock.ownSecret" (dict "values" $mongodb "component" .component) | fromYaml }}
{{- $secrets := list (list "MONGODB_URI" $own) (list "PENSTOCK_EVENTS_MONGODB_URI" $mongodb.events) (list "PENSTOCK_STATE_MONGODB_URI" $mongodb.state) }}
{{- if eq .component "projector" }}
{{- $secrets = append $secrets (list "PENSTOCK_READMODELS_MONGODB_URI" $mongodb.readModels) }}
{{- end }}
{{- $secrets = append $secrets (list "AZURE_SERVICEBUS_CONNECTION_STRING" (include "penstock.ownSecret" (dict "values" .root.Values.serviceBus "component" .component) | fromYaml)) }}
{{- range $secrets }}
{{- $values := index . 1 }}
{{- if $values.existingSecret }}
- {{ dict "name" (index . 0) "secret" $values.existingSecret "key" $values.existingSecretKey | toJson }}
{{- end }}
{{- end }}
{{- end }}

{{/* The variables with a component's secrets, or with the files of them. */}}
{{- define "penstock.env.secrets" -}}
{{- $files := .root.Values.secrets.files }}
{{- range include "penstock.secretVariables" . | fromYamlArray }}
{{- if $files }}
- name: {{ .name }}_FILE
  value: {{ printf "/var/run/secrets/penstock/connections/%s" .name | quote }}
{{- else }}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret | quote }}
      key: {{ .key | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* The variables of both services. */}}
{{- define "penstock.env.common" -}}
{{- $values := .root.Values }}
{{- $own := index $values .component }}
{{- $mongodb := $values.mongodb }}
{{- if not .withoutSecrets }}
{{- include "penstock.env.secrets" . }}
{{- end }}
# A container that restarts in its pod has the identity of the former one, which has ended.
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_UID
  valueFrom:
    fieldRef:
      fieldPath: metadata.uid
- name: PENSTOCK_IDENTITY
  value: $(POD_NAME)_$(POD_UID)
{{- include "penstock.env.plain" (list
  (list "PENSTOCK_EVENTS_DATABASE" $mongodb.events.database)
  (list "PENSTOCK_EVENTS_COLLECTION" $mongodb.events.collection)
  (list "PENSTOCK_STATE_DATABASE" $mongodb.state.database)
  (list "AZURE_SERVICEBUS_NAMESPACE" $values.serviceBus.namespace)
  (list "AZURE_SERVICEBUS_TOPIC_NAME" $values.serviceBus.topic)
  (list "PENSTOCK_SERVICEBUS_TRANSPORT" $values.serviceBus.transport)
  (list "PENSTOCK_FIELD_AGGREGATE_ID" $values.events.fields.aggregateId)
  (list "PENSTOCK_FIELD_AGGREGATE_TYPE" $values.events.fields.aggregateType)
  (list "PENSTOCK_FIELD_EVENT_ID" $values.events.fields.eventId)
  (list "PENSTOCK_FIELD_EVENT_TYPE" $values.events.fields.eventType)
  (list "PENSTOCK_FIELD_TIMESTAMP" $values.events.fields.timestamp)
  (list "PENSTOCK_FIELD_PAYLOAD" $values.events.fields.payload)
  (list "PENSTOCK_FIELD_METADATA" $values.events.fields.metadata)
  (list "PENSTOCK_FIRST_EVENT_ID" $values.events.firstEventId)
  (list "PENSTOCK_LOG_LEVEL" $own.log.level)
  (list "PENSTOCK_LOG_FORMAT" $own.log.format)
  (list "PENSTOCK_ADMIN_ADDRESS" (printf ":%d" (int64 $own.adminPort)))
  (list "PENSTOCK_ADMIN_HOSTS" (join "," $own.adminHosts))
  (list "PENSTOCK_PPROF" (ternary "true" "" $own.pprof))
  (list "PENSTOCK_DRAIN_TIMEOUT" (printf "%ds" (int64 $own.drainTimeoutSeconds)))
) }}
{{- if $values.tracing.enabled }}
{{- include "penstock.env.plain" (list
  (list "OTEL_TRACES_EXPORTER" "otlp")
  (list "OTEL_EXPORTER_OTLP_ENDPOINT" $values.tracing.endpoint)
  (list "OTEL_TRACES_SAMPLER" $values.tracing.sampler)
  (list "OTEL_TRACES_SAMPLER_ARG" $values.tracing.ratio)
) }}
{{- end }}
{{- if eq (include "penstock.mountsMongoDBToken" .root) "true" }}
{{- /* The driver reads this variable if there is no Azure identity: x/mongo/driver/auth/oidc.go. */}}
{{- include "penstock.env.plain" (list (list "AWS_WEB_IDENTITY_TOKEN_FILE" "/var/run/secrets/penstock/mongodb/token")) }}
{{- end }}
{{- if not (has "GOMEMLIMIT" (include "penstock.env.extraNames" . | fromYamlArray)) }}
{{- include "penstock.env.plain" (list (list "GOMEMLIMIT" (include "penstock.goMemLimit" .))) }}
{{- end }}
{{- end }}

{{- define "penstock.env.publisher" -}}
{{- include "penstock.env.common" . }}
{{- include "penstock.env.buffers" . }}
{{- with .root }}
{{- $own := .Values.publisher }}
{{- $election := $own.election.kind }}
{{- include "penstock.env.plain" (list
  (list "PENSTOCK_STREAM" (include "penstock.streamName" .))
  (list "PENSTOCK_START" $own.stream.start)
  (list "PENSTOCK_PREFETCH_BYTES" $own.stream.prefetchBytes)
  (list "PENSTOCK_STREAM_SILENCE" $own.stream.silence)
  (list "PENSTOCK_ENCODING" $own.publish.encoding)
  (list "PENSTOCK_SESSION_MODE" $own.publish.sessionMode)
  (list "PENSTOCK_SESSION_BUCKETS" $own.publish.sessionBuckets)
  (list "PENSTOCK_CLOUDEVENTS_SOURCE" $own.publish.cloudEventsSource)
  (list "PENSTOCK_CLAIM_CHECK" $own.publish.claimCheck)
  (list "PENSTOCK_BATCHING" $own.publish.batching)
  (list "PENSTOCK_CONNECTIONS" $own.publish.connections)
  (list "PENSTOCK_MAX_INFLIGHT_EVENTS" $own.publish.maxInflightEvents)
  (list "PENSTOCK_MAX_INFLIGHT_BYTES" $own.publish.maxInflightBytes)
  (list "PENSTOCK_CHECKPOINT_INTERVAL" $own.publish.checkpointInterval)
  (list "PENSTOCK_MAX_SEND_ATTEMPTS" $own.publish.maxSendAttempts)
  (list "PENSTOCK_FATAL_AFTER" $own.publish.fatalAfter)
  (list "PENSTOCK_ELECTION" $election)
  (list "PENSTOCK_LEASE_NAME" (include "penstock.leaseName" .))
  (list "PENSTOCK_LEASE_DURATION" (printf "%ds" (int64 $own.lease.durationSeconds)))
  (list "PENSTOCK_LEASE_RENEW_DEADLINE" (printf "%ds" (int64 $own.lease.renewDeadlineSeconds)))
  (list "PENSTOCK_LEASE_RETRY_PERIOD" (printf "%ds" (int64 $own.lease.retryPeriodSeconds)))
) }}
{{- if eq $election "kubernetes" }}
- name: PENSTOCK_LEASE_NAMESPACE
{{- if $own.lease.namespace }}
  value: {{ $own.lease.namespace | quote }}
{{- else }}
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "penstock.env.projector" -}}
{{- include "penstock.env.common" . }}
{{- include "penstock.env.buffers" . }}
{{- with .root }}
{{- $own := .Values.projector }}
{{- $readModels := .Values.mongodb.readModels }}
{{- include "penstock.env.plain" (list
  (list "PENSTOCK_READMODELS_DATABASE" $readModels.database)
  (list "AZURE_SERVICEBUS_SUBSCRIPTION_NAME" .Values.serviceBus.subscription)
  (list "PENSTOCK_PROJECTIONS" (ternary "/etc/penstock/projections" "" (ne (include "penstock.hasProjectionFiles" .) "")))
  (list "PENSTOCK_RECONCILE" $own.history.reconcile)
  (list "PENSTOCK_RECONCILE_CONTENT" (ternary "true" "" $own.history.reconcileContent))
  (list "PENSTOCK_VERIFY_SAMPLE" $own.history.verifySample)
  (list "PENSTOCK_FAILURE_LIMIT" $own.projections.failureLimit)
  (list "PENSTOCK_BATCH_SIZE" $own.batchSize)
  (list "PENSTOCK_LOAD_BYTES" $own.loadBytes)
  (list "PENSTOCK_KEEP_BYTES" $own.keepBytes)
  (list "PENSTOCK_FLUSH_INTERVAL" $own.flushInterval)
  (list "PENSTOCK_RECEIVER" $own.receiver)
  (list "PENSTOCK_CONNECTIONS" $own.connections)
  (list "PENSTOCK_SESSIONS" $own.sessions.slots)
  (list "PENSTOCK_SESSION_IDLE" $own.sessions.idle)
  (list "PENSTOCK_SESSION_HOLD" $own.sessions.hold)
  (list "PENSTOCK_SESSION_TENURE" $own.sessions.tenure)
  (list "PENSTOCK_BUFFER_BYTES" $own.sessions.bufferBytes)
  (list "PENSTOCK_BACKLOG_INTERVAL" $own.backlog.interval)
  (list "PENSTOCK_BACKLOG_LIMIT" $own.backlog.limit)
  (list "PENSTOCK_BEHIND_AFTER" $own.backlog.behindAfter)
  (list "PENSTOCK_REFOLD_RATE" $own.history.refoldRate)
  (list "PENSTOCK_QUERY_ADDRESS" (ternary (printf ":%d" (int64 $own.query.port)) "" $own.query.enabled))
  (list "PENSTOCK_FATAL_AFTER" $own.fatalAfter)
) }}
{{- end }}
{{- end }}

{{/* The names in a component's extraEnv. */}}
{{- define "penstock.env.extraNames" -}}
{{- $names := list }}
{{- range (index .root.Values .component).extraEnv }}{{ $names = append $names .name }}{{ end }}
{{- toYaml $names }}
{{- end }}

{{/* The buffers that the memory limit makes smaller than the service's defaults. */}}
{{- define "penstock.env.buffers" -}}
{{- $sizes := (include "penstock.buffers" . | fromYaml).sizes }}
{{- include "penstock.env.plain" (list
  (list "PENSTOCK_PREFETCH_BYTES" (get $sizes "stream.prefetchBytes"))
  (list "PENSTOCK_MAX_INFLIGHT_BYTES" (get $sizes "publish.maxInflightBytes"))
  (list "PENSTOCK_LOAD_BYTES" (get $sizes "loadBytes"))
  (list "PENSTOCK_KEEP_BYTES" (get $sizes "keepBytes"))
  (list "PENSTOCK_BUFFER_BYTES" (get $sizes "sessions.bufferBytes"))
) }}
{{- end }}

{{/*
GOMEMLIMIT in MiB, as a percentage of the container's memory limit. It is empty if there
is no limit.
*/}}
{{- define "penstock.goMemLimit" -}}
{{- $own := index .root.Values .component }}
{{- $limit := dig "limits" "memory" "" ($own.resources | default dict) }}
{{- $bytes := include "penstock.bytes" $limit }}
{{- if and $bytes (gt (int64 $own.goMemLimitPercent) 0) }}
{{- $mebibytes := divf (mulf (float64 $bytes) (float64 $own.goMemLimitPercent)) 100 1048576 | floor | int64 }}
{{- if gt $mebibytes 0 }}{{ printf "%dMiB" $mebibytes }}{{ end }}
{{- end }}
{{- end }}
