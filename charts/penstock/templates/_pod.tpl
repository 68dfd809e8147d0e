{{/*
What the pods of both services share. The context is a dict of the root context
("root") and the component's name ("component").
*/}}

{{- define "penstock.podMetadata" -}}
{{- $own := index .root.Values .component -}}
labels:
  {{- include "penstock.selectorLabels" . | nindent 2 }}
  app.kubernetes.io/part-of: penstock
  {{- with .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- if .root.Values.azure.workloadIdentity.enabled }}
  azure.workload.identity/use: "true"
  {{- end }}
  {{- with $own.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
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
  - {{ toYaml (merge (dict) . (dict "labelSelector" $selector)) | nindent 4 | trim }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "penstock.container" -}}
{{- $own := index .root.Values .component -}}
image: {{ include "penstock.image" . | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- with $own.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
env:
  {{- include (printf "penstock.env.%s" .component) .root | trim | nindent 2 }}
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
{{- end }}

{{- define "penstock.probes" -}}
{{- $own := index .root.Values .component -}}
ports:
  - name: admin
    containerPort: {{ int64 $own.adminPort }}
    protocol: TCP
startupProbe:
  httpGet:
    path: /livez
    port: admin
  {{- toYaml $own.probes.startup | nindent 2 }}
livenessProbe:
  httpGet:
    path: /livez
    port: admin
  {{- toYaml $own.probes.liveness | nindent 2 }}
readinessProbe:
  httpGet:
    path: /readyz
    port: admin
  {{- toYaml $own.probes.readiness | nindent 2 }}
{{- end }}

{{/*
The shortest grace period that lets a stop come to its end. The publisher drains, has
10 s to close the stream and to save the checkpoint, and gives the Lease back, which
takes up to the renew deadline where the API server does not answer. The projector
drains and releases its sessions.
*/}}
{{- define "penstock.leastGracePeriod" -}}
{{- $own := index .root.Values .component }}
{{- if eq .component "publisher" }}
{{- add (int64 $own.drainTimeoutSeconds) 10 (ternary 0 (int64 $own.lease.renewDeadlineSeconds) (eq $own.election.kind "none")) 5 }}
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

{{/* Where the projector's containers find the projections; the context is the root. */}}
{{- define "penstock.projectorMounts" -}}
{{- $files := eq (include "penstock.hasProjectionFiles" .) "true" }}
{{- if or $files .Values.projector.extraVolumeMounts -}}
volumeMounts:
  {{- if $files }}
  - name: projections
    mountPath: /etc/penstock/projections
    readOnly: true
  {{- end }}
  {{- with .Values.projector.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}
