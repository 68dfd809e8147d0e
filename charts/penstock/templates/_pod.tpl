{{/*
The parts that the pods of both services share. The context is a dict of the root context
("root") and the component's name ("component").
*/}}

{{/* The labels that the chart itself gives to pods; no value may set them. */}}
{{- define "penstock.ownPodLabels" -}}
{{ include "penstock.selectorLabels" . }}
app.kubernetes.io/part-of: penstock
{{- if .root.Values.azure.workloadIdentity.enabled }}
azure.workload.identity/use: "true"
{{- end }}
{{- end }}

{{- define "penstock.podMetadata" -}}
{{- $own := index .root.Values .component -}}
labels:
  {{- toYaml (merge (dict) (include "penstock.ownPodLabels" . | fromYaml) ($own.podLabels | default dict) (.root.Values.commonLabels | default dict)) | nindent 2 }}
annotations:
  {{- $annotations := merge (dict) ($own.podAnnotations | default dict) (dict "kubectl.kubernetes.io/default-container" .component) }}
  {{- if eq .component "projector" }}
  {{- $annotations = merge (include "penstock.projectionAnnotations" .root | fromYaml) $annotations }}
  {{- end }}
  {{- toYaml $annotations | nindent 2 }}
{{- end }}

{{- define "penstock.podSpec" -}}
{{- $own := index .root.Values .component -}}
serviceAccountName: {{ include "penstock.serviceAccountName" . }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "penstock.gracePeriod" . }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $own.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- if not (kindIs "invalid" $own.hostUsers) }}
hostUsers: {{ $own.hostUsers }}
{{- end }}
{{- with $own.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with $own.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- $selector := dict "matchLabels" (include "penstock.selectorLabels" $ | fromYaml) }}
  {{- range . }}
  {{- $constraint := . }}
  {{- if not (hasKey . "labelSelector") }}{{ $constraint = merge (dict "labelSelector" $selector) . }}{{ end }}
  - {{ toYaml $constraint | nindent 4 | trim }}
  {{- end }}
{{- end }}
{{- end }}

{{/* A container of the service. With "withoutSecrets" it has no secrets of the connections. */}}
{{- define "penstock.container" -}}
{{- $own := index .root.Values .component -}}
image: {{ include "penstock.image" . | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- with $own.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
env:
  {{- include (printf "penstock.env.%s" .component) . | trim | nindent 2 }}
  {{- with $own.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $own.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "penstock.volumeMounts" . }}
{{ . }}
{{- end }}
{{- end }}

{{/*
The init container that checks what the service needs. It fails only for problems that do
not go away by themselves. The service waits for a broker or a database that does not
answer, so an outage must not keep a pod from starting.
*/}}
{{- define "penstock.preflight" -}}
{{- $own := index .root.Values .component -}}
{{- if $own.preflight.enabled -}}
- name: preflight
  args: {{ ternary (list "check" "--init") (list "check" "--connect" "--init") (eq .component "publisher") | toJson }}
  {{- include "penstock.container" . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "penstock.probes" -}}
{{- $own := index .root.Values .component -}}
ports:
  - name: admin
    containerPort: {{ int64 $own.adminPort }}
    protocol: TCP
  {{- if and (eq .component "projector") $own.query.enabled }}
  - name: query
    containerPort: {{ int64 $own.query.port }}
    protocol: TCP
  {{- end }}
startupProbe:
  httpGet:
    path: /livez
    port: admin
  {{- with $own.probes.startup }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
livenessProbe:
  httpGet:
    path: /livez
    port: admin
  {{- with $own.probes.liveness }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
readinessProbe:
  httpGet:
    path: /readyz
    port: admin
  {{- with $own.probes.readiness }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/*
The shortest grace period in which a stop can complete. The publisher drains, has 10 s to
close the stream and to save the checkpoint, and releases the Lease. The release takes up
to the renew deadline if the API server does not answer. The projector drains and releases
its sessions.
*/}}
{{- define "penstock.leastGracePeriod" -}}
{{- $own := index .root.Values .component }}
{{- if eq .component "publisher" }}
{{- add (int64 $own.drainTimeoutSeconds) 10 (int64 $own.lease.renewDeadlineSeconds) 5 }}
{{- else }}
{{- add (int64 $own.drainTimeoutSeconds) 10 }}
{{- end }}
{{- end }}

{{- define "penstock.gracePeriod" -}}
{{- $set := (index .root.Values .component).terminationGracePeriodSeconds }}
{{- if kindIs "invalid" $set }}
{{- include "penstock.leastGracePeriod" . }}
{{- else }}
{{- int64 $set }}
{{- end }}
{{- end }}

{{/* The volumes that the chart itself gives to a component's pods, as a list. */}}
{{- define "penstock.ownVolumes" -}}
{{- $projections := .root.Values.projector.projections }}
{{- if and (eq .component "projector") $projections.files }}
- name: projections
  downwardAPI:
    items:
      {{- range $file := keys $projections.files | sortAlpha }}
      - path: {{ $file | quote }}
        fieldRef:
          fieldPath: {{ printf "metadata.annotations['projections.penstock.dev/%s']" $file | quote }}
      {{- end }}
{{- else if and (eq .component "projector") $projections.existingConfigMap }}
- name: projections
  configMap:
    name: {{ $projections.existingConfigMap | quote }}
{{- end }}
{{- if eq (include "penstock.mountsMongoDBToken" .root) "true" }}
- name: mongodb-token
  projected:
    sources:
      - serviceAccountToken:
          path: token
          expirationSeconds: 3600
          {{- with .root.Values.mongodb.oidc.audience }}
          audience: {{ . | quote }}
          {{- end }}
{{- end }}
{{- if .root.Values.secrets.files }}
{{- with include "penstock.secretVariables" . | fromYamlArray }}
- name: connections
  projected:
    sources:
      {{- range . }}
      - secret:
          name: {{ .secret | quote }}
          items:
            - key: {{ .key | quote }}
              path: {{ .name }}
      {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "penstock.volumes" -}}
{{- $volumes := concat (include "penstock.ownVolumes" . | fromYamlArray) ((index .root.Values .component).extraVolumes | default list) -}}
{{- with $volumes -}}
volumes:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The volume mounts that the chart itself gives to a component's containers, as a list. */}}
{{- define "penstock.ownVolumeMounts" -}}
{{- $mounts := list }}
{{- if and (eq .component "projector") (eq (include "penstock.hasProjectionFiles" .root) "true") }}
{{- $mounts = append $mounts (dict "name" "projections" "mountPath" "/etc/penstock/projections" "readOnly" true) }}
{{- end }}
{{- if and (eq (include "penstock.mountsMongoDBToken" .root) "true") (not .withoutSecrets) }}
{{- $mounts = append $mounts (dict "name" "mongodb-token" "mountPath" "/var/run/secrets/penstock/mongodb" "readOnly" true) }}
{{- end }}
{{- if and .root.Values.secrets.files (not .withoutSecrets) (include "penstock.secretVariables" . | fromYamlArray) }}
{{- $mounts = append $mounts (dict "name" "connections" "mountPath" "/var/run/secrets/penstock/connections" "readOnly" true) }}
{{- end }}
{{- toYaml $mounts }}
{{- end }}

{{- define "penstock.volumeMounts" -}}
{{- with concat (include "penstock.ownVolumeMounts" . | fromYamlArray) ((index .root.Values .component).extraVolumeMounts | default list) -}}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
An update strategy. Kubernetes allows rollingUpdate only for the type RollingUpdate, but
Helm merges the chart's default into the values of every type.
*/}}
{{- define "penstock.updateStrategy" -}}
{{- with . }}
{{- toYaml (ternary . (omit . "rollingUpdate") (eq (default "RollingUpdate" .type) "RollingUpdate")) }}
{{- end }}
{{- end }}
