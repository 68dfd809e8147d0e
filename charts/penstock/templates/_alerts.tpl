{{/*
The alerts. Each has a heading in RUNBOOK.md. critical: events do not move, or their order
is at risk, now. warning: look at it in working hours.

A process can count something before its first scrape, such as a scan at its start. increase()
does not see that, because the series begins above 0. So alerts on a single count also look
for series that did not exist before.
*/}}

{{/*
The labels that name an alert's release. The expressions aggregate over the pods, so their
results have no such labels, and Alertmanager would merge the alerts of two releases.
*/}}
{{- define "penstock.alertSource" -}}
release: {{ .Release.Name | quote }}
namespace: {{ .Release.Namespace | quote }}
{{- with .Values.metrics.clusterName }}
cluster: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "penstock.alerts.publisher" -}}
{{- $thresholds := .root.Values.metrics.prometheusRule.thresholds }}
{{- $pods := include "penstock.promSelector" . -}}
{{- if gt (int64 .root.Values.publisher.replicas) 0 }}
- alert: PenstockPublisherNoLeader
  expr: sum(penstock_publisher_leader{ {{- $pods -}} }) < 1 or absent(penstock_publisher_leader{ {{- $pods -}} })
  for: 2m
  labels: {severity: critical}
  annotations:
    summary: No publisher leads.
    description: No publisher has led for 2 minutes. New events wait in the event store.
{{- end }}
- alert: PenstockPublisherTwoLeaders
  expr: sum(penstock_publisher_leader{ {{- $pods -}} }) > 1 or sum(increase(penstock_publisher_checkpoint_saves_total{ {{- $pods }}, result="fenced"}[15m])) > 2
  for: 2m
  labels: {severity: critical}
  annotations:
    summary: More than one publisher leads.
    description: Two pods of this release have led at once for 2 minutes, or another publisher has taken this release's checkpoint more than twice in 15 minutes. Epochs keep the checkpoint safe. Find out why the lease does not prevent two leaders.
- alert: PenstockPublisherTermsChange
  expr: sum(increase(penstock_publisher_terms_total{ {{- $pods }}, reason!="stopping"}[15m])) > 3
  labels: {severity: warning}
  annotations:
    summary: Leadership changes hands too often.
    description: {{ `In 15 minutes, {{ $value | humanize }} terms have ended for another reason than a stop.` | quote }}
- alert: PenstockPublisherStreamLag
  expr: max(penstock_publisher_stream_lag_seconds{ {{- $pods -}} }) > {{ int64 $thresholds.streamLagSeconds }} and on() max(max_over_time(penstock_publisher_stream_caught_up{ {{- $pods -}} }[1h])) == 1
  for: 5m
  labels: {severity: critical}
  annotations:
    summary: The publisher is behind the event store.
    description: {{ `The change stream is read {{ $value | humanizeDuration }} behind the event store.` | quote }}
- alert: PenstockPublisherShardIdle
  expr: max(penstock_publisher_stream_shard_wait_seconds{ {{- $pods -}} }) > 30
  for: 10m
  labels: {severity: warning}
  annotations:
    summary: An idle shard delays the change stream.
    description: {{ `A shard without writes delays the change stream by {{ $value | humanizeDuration }}.` | quote }}
- alert: PenstockPublisherCatchUpStalled
  expr: min(delta(penstock_publisher_stream_lag_seconds{ {{- $pods -}} }[15m])) >= 0 and on() max(penstock_publisher_stream_lag_seconds{ {{- $pods -}} }) > 0 and on() max(penstock_publisher_leader{ {{- $pods -}} }) == 1 and on() max(penstock_publisher_stream_caught_up{ {{- $pods -}} }) == 0 and on() max(penstock_publisher_source_missing{ {{- $pods -}} }) == 0 and on() sum(rate(penstock_publisher_events_scanned_total{ {{- $pods -}} }[15m])) == 0
  for: 30m
  labels: {severity: critical}
  annotations:
    summary: The publisher does not catch up with the event store.
    description: The change stream is behind the event store, and its lag has not fallen for 45 minutes.
- alert: PenstockPublisherSourceMissing
  expr: max(penstock_publisher_source_missing{ {{- $pods -}} }) > 0
  for: 5m
  labels: {severity: critical}
  annotations:
    summary: The events collection does not exist.
    description: The leader has waited for the events collection for 5 minutes. Nothing is published.
- alert: PenstockPublisherCheckpointOld
  expr: max(penstock_publisher_checkpoint_age_seconds{ {{- $pods -}} }) > {{ int64 $thresholds.checkpointAgeSeconds }} unless on() max(penstock_publisher_source_missing{ {{- $pods -}} }) == 1
  for: 5m
  labels: {severity: critical}
  annotations:
    summary: The checkpoint does not move.
    description: {{ `The checkpoint has not moved for {{ $value | humanizeDuration }}: saves fail, an event is not accepted, or the stream makes no progress.` | quote }}
- alert: PenstockPublisherSendErrors
  expr: sum by (fault) (rate(penstock_publisher_send_errors_total{ {{- $pods }}, fault!="busy"}[5m])) > 0.1
  for: 15m
  labels: {severity: warning}
  annotations:
    summary: Sends to Service Bus fail.
    description: {{ `Sends have failed for 15 minutes ({{ $labels.fault }}), {{ $value | humanize }} a second.` | quote }}
- alert: PenstockPublisherTopicRefuses
  expr: max(penstock_publisher_topic_refused{ {{- $pods -}} }) > 0
  for: 1m
  labels: {severity: critical}
  annotations:
    summary: The topic refuses the publisher.
    description: The topic does not let the publisher send, or refuses every event. The publisher retries. Its process ends if missing rights or a missing topic last.
- alert: PenstockPublisherBrokerUnreachable
  expr: max(penstock_publisher_health_conditions{ {{- $pods }}, condition="broker-unreachable"}) > 0
  for: 2m
  labels: {severity: critical}
  annotations:
    summary: The publisher does not reach Service Bus.
    description: For 2 minutes the publisher could not open a connection to the topic, or the topic accepted no send. Events wait in the event store.
- alert: PenstockPublisherKeysDelayed
  expr: max(penstock_publisher_delayed_seconds{ {{- $pods -}} }) > 600
  labels: {severity: warning}
  annotations:
    summary: Events of some aggregates are not accepted.
    description: {{ `Sending the next event of a session key has failed for {{ $value | humanizeDuration }}. The other keys continue.` | quote }}
- alert: PenstockPublisherThrottled
  expr: sum(rate(penstock_publisher_throttled_total{ {{- $pods -}} }[5m])) > 0
  for: 15m
  labels: {severity: warning}
  annotations:
    summary: Service Bus throttles the publisher.
    description: {{ `The namespace has refused sends as busy for 15 minutes, {{ $value | humanize }} a second.` | quote }}
- alert: PenstockPublisherQuarantined
  expr: sum by (reason) (increase(penstock_publisher_quarantined_total{ {{- $pods -}} }[15m])) > 0 or sum by (reason) (penstock_publisher_quarantined_total{ {{- $pods -}} } unless last_over_time(penstock_publisher_quarantined_total{ {{- $pods -}} }[1d] offset 15m)) > 0
  labels: {severity: warning}
  annotations:
    summary: Events break the contract.
    description: {{ `Events went to the quarantine within 15 minutes ({{ $labels.reason }}): {{ $value | humanize }}.` | quote }}
- alert: PenstockPublisherQuarantineNotEmpty
  expr: max(penstock_publisher_quarantine_records{ {{- $pods -}} }) > {{ int64 $thresholds.quarantineRecords }}
  for: 15m
  labels: {severity: warning}
  annotations:
    summary: Events wait in the quarantine.
    description: {{ `{{ $value | humanize }} events are in the quarantine and were not published.` | quote }}
- alert: PenstockPublisherOplogRunway
  expr: min(penstock_publisher_oplog_runway_seconds{ {{- $pods -}} }) < {{ int64 $thresholds.oplogRunwaySeconds }} unless max(penstock_publisher_oplog_complete{ {{- $pods -}} }) == 1
  for: 5m
  labels: {severity: critical}
  annotations:
    summary: The oplog is about to lose the publisher's position.
    description: {{ `The oplog reaches back only {{ $value | humanizeDuration }} before the checkpoint. If it no longer contains the checkpoint's position, the publisher scans the event store and publishes it again.` | quote }}
- alert: PenstockPublisherSourceChanged
  expr: sum by (operation) (increase(penstock_publisher_source_mutations_total{ {{- $pods -}} }[15m])) > 0 or sum by (operation) (penstock_publisher_source_mutations_total{ {{- $pods -}} } unless last_over_time(penstock_publisher_source_mutations_total{ {{- $pods -}} }[1d] offset 15m)) > 0
  labels: {severity: warning}
  annotations:
    summary: Stored events were changed.
    description: {{ `Somebody has changed events in place within 15 minutes ({{ $labels.operation }}): {{ $value | humanize }}. Such changes are not published. The erasure of a person is such a change, too: compare with "projector audit --command erase".` | quote }}
- alert: PenstockPublisherHistoryLost
  expr: sum(increase(penstock_publisher_scans_total{ {{- $pods }}, reason="history_lost"}[1h])) > 0 or sum(penstock_publisher_scans_total{ {{- $pods }}, reason="history_lost"} unless last_over_time(penstock_publisher_scans_total{ {{- $pods }}, reason="history_lost"}[1d] offset 1h)) > 0
  labels: {severity: critical}
  annotations:
    summary: The change stream could not continue after the checkpoint.
    description: The publisher scans the event store and publishes it again. Nothing is lost, but the oplog is too short for the outage that it had to bridge, unless the log says that a change was too large.
- alert: PenstockPublisherRestarts
  expr: max by (pod) (changes(process_start_time_seconds{ {{- $pods -}} }[1h])) > 2
  labels: {severity: warning}
  annotations:
    summary: A publisher restarts again and again.
    description: {{ `The process of pod {{ $labels.pod }} has started {{ $value | humanize }} times in an hour.` | quote }}
- alert: PenstockPublisherOutOfMemory
  expr: max by (pod) (changes(kube_pod_container_status_restarts_total{ {{- $pods -}} }[15m])) > 0 and on (pod) max by (pod) (kube_pod_container_status_last_terminated_reason{ {{- $pods }}, reason="OOMKilled"}) > 0
  labels: {severity: critical}
  annotations:
    summary: A publisher was killed for its memory.
    description: {{ `A container of pod {{ $labels.pod }} exceeded its memory limit and was killed in the last 15 minutes.` | quote }}
{{- end }}

{{- define "penstock.alerts.projector" -}}
{{- $thresholds := .root.Values.metrics.prometheusRule.thresholds }}
{{- $autoscaling := .root.Values.projector.autoscaling }}
{{- $pods := include "penstock.promSelector" . -}}
{{- /* At zero replicas, only the Deployment says that pods are wanted (kube-state-metrics). */ -}}
{{- $zero := and (eq $autoscaling.mode "keda") (lt (int64 $autoscaling.minReplicas) 1) -}}
{{- if or (ne $autoscaling.mode "none") (gt (int64 .root.Values.projector.replicas) 0) }}
- alert: PenstockProjectorDown
  expr: absent(penstock_projector_sessions_active{ {{- $pods -}} }){{ if $zero }} and on() max(kube_deployment_spec_replicas{namespace="{{ .root.Release.Namespace }}", deployment="{{ include "penstock.componentName" . }}"}) > 0{{ end }}
  for: 5m
  labels: {severity: critical}
  annotations:
    summary: No projector runs.
    description: No projector has been seen for 5 minutes. Events wait in the subscription.
{{- end }}
{{- if eq (include "penstock.countsBacklog" .root) "true" }}
- alert: PenstockProjectorStandsStill
  expr: max(penstock_projector_backlog_sessions{ {{- $pods -}} }) > 0 and sum(rate(penstock_projector_events_total{ {{- $pods -}} }[10m])) == 0
  for: 10m
  labels: {severity: critical}
  annotations:
    summary: The projectors make no progress.
    description: {{ `Sessions wait ({{ $value | humanize }}), and no event has been projected for 10 minutes.` | quote }}
- alert: PenstockProjectorBacklogUnknown
  expr: absent(penstock_projector_backlog_sessions{ {{- $pods -}} }) and on() sum(penstock_projector_session_slots{ {{- $pods -}} }) > 0
  for: 10m
  labels: {severity: warning}
  annotations:
    summary: The backlog of the projectors is unknown.
    description: For 10 minutes no running projector could count the sessions that have messages. Autoscaling by sessions does not have the number, and PenstockProjectorStandsStill cannot fire.
{{- end }}
- alert: PenstockProjectorUnreadable
  expr: sum(penstock_projector_unreadable{ {{- $pods -}} }) > 0
  for: 1m
  labels: {severity: critical}
  annotations:
    summary: The messages on the topic are not events.
    description: {{ `{{ $value }} pods have received messages, and none of them was an event. The messages stay in the subscription, so that a wrong setting does not dead-letter all of them.` | quote }}
- alert: PenstockProjectorLate
  expr: histogram_quantile(0.99, sum by (le) (rate(penstock_projector_event_age_seconds_bucket{ {{- $pods -}} }[5m]))) > {{ int64 $thresholds.eventAgeSeconds }}
  for: 10m
  labels: {severity: warning}
  annotations:
    summary: Read models are late.
    description: {{ `The 99th percentile from an event to its read models has been above the threshold for 10 minutes, now {{ $value | humanizeDuration }}.` | quote }}
- alert: PenstockProjectorParked
  expr: sum by (projection) (max by (projection, reason) (penstock_projector_parked_aggregates{ {{- $pods }}, reason!~"missing|unavailable"})) > 0
  for: 5m
  labels: {severity: warning}
  annotations:
    summary: Aggregates are parked.
    description: {{ `{{ $value }} aggregates of projection {{ $labels.projection }} are parked at an event that cannot be applied, or without their first events, and somebody must act.` | quote }}
- alert: PenstockProjectorViewNearLimit
  expr: sum by (projection) (increase(penstock_projector_view_documents_near_limit_total{ {{- $pods -}} }[1h])) > 0 or sum by (projection) (penstock_projector_view_documents_near_limit_total{ {{- $pods -}} } unless last_over_time(penstock_projector_view_documents_near_limit_total{ {{- $pods -}} }[1d] offset 1h)) > 0
  labels: {severity: warning}
  annotations:
    summary: Documents of a view are near a limit.
    description: {{ `Within an hour, {{ $value | humanize }} writes of documents of view {{ $labels.projection }} have reached 80 % of a limit. Beyond it, aggregates are parked.` | quote }}
- alert: PenstockProjectorInvalidMessages
  expr: sum(increase(penstock_projector_invalid_messages_total{ {{- $pods -}} }[15m])) > 0 or sum(penstock_projector_invalid_messages_total{ {{- $pods -}} } unless last_over_time(penstock_projector_invalid_messages_total{ {{- $pods -}} }[1d] offset 15m)) > 0
  labels: {severity: warning}
  annotations:
    summary: Messages on the topic are not events.
    description: {{ `{{ $value | humanize }} messages went to the dead-letter queue within 15 minutes, because they are not events.` | quote }}
- alert: PenstockProjectorEventsMissing
  expr: sum by (projection) (max by (projection, reason) (penstock_projector_parked_aggregates{ {{- $pods }}, reason="missing"})) > 0
  for: 15m
  labels: {severity: critical}
  annotations:
    summary: The event store has holes.
    description: {{ `{{ $value }} aggregates of projection {{ $labels.projection }} wait for events that are neither on the topic nor in the event store.` | quote }}
- alert: PenstockProjectorStoreUnavailable
  expr: sum by (projection) (max by (projection, reason) (penstock_projector_parked_aggregates{ {{- $pods }}, reason="unavailable"})) > 0
  for: 15m
  labels: {severity: warning}
  annotations:
    summary: MongoDB does not accept some read models.
    description: {{ `{{ $value }} aggregates of projection {{ $labels.projection }} wait for MongoDB, which accepts other read models.` | quote }}
- alert: PenstockProjectorBrokerUnreachable
  expr: sum(penstock_projector_health_conditions{ {{- $pods }}, condition="broker-unreachable"}) > 0
  for: 2m
  labels: {severity: critical}
  annotations:
    summary: Projectors do not reach Service Bus.
    description: {{ `{{ $value }} pods have got no answer for 2 minutes when they asked Service Bus for a session. If this holds for all pods, read models get no events.` | quote }}
- alert: PenstockProjectorJobStuck
  expr: max by (kind) (penstock_projector_job_progress_age_seconds{ {{- $pods -}} }) > 600
  for: 5m
  labels: {severity: warning}
  annotations:
    summary: A job makes no progress.
    description: {{ `A job of kind {{ $labels.kind }} has made no progress for {{ $value | humanizeDuration }}.` | quote }}
- alert: PenstockProjectorRebuildFailed
  expr: max by (projection) (penstock_projector_generation_building{ {{- $pods }}, state="failed"}) > 0
  for: 1m
  labels: {severity: warning}
  annotations:
    summary: The rebuild of a projection has failed.
    description: {{ `Generation {{ $value }} of projection {{ $labels.projection }} could not be built. The read models before it stay in use.` | quote }}
- alert: PenstockProjectorRebuildWaits
  expr: max by (projection) (penstock_projector_generation_building{ {{- $pods }}, state=~"catching up|verifying|promoting"}) > 0 or max by (projection) (penstock_projector_generation_building{ {{- $pods }}, state="building"}) > 0 unless on() max(penstock_projector_jobs{ {{- $pods }}, kind="build", state=~"planning|running"}) > 0
  for: 1h
  labels: {severity: warning}
  annotations:
    summary: A rebuilt projection does not go live.
    description: {{ `Generation {{ $value }} of projection {{ $labels.projection }} has been waiting for an hour. It is caught up or verified and does not go live, or it must be built and no job builds it. The read models before it stay in use.` | quote }}
- alert: PenstockProjectorPromotionStuck
  expr: max by (projection) (penstock_projector_generation_building{ {{- $pods }}, state="promoting"}) > 0
  for: 2m
  labels: {severity: critical}
  annotations:
    summary: The writes of a projection are paused.
    description: {{ `Generation {{ $value }} of projection {{ $labels.projection }} has been in promotion for 2 minutes. No pod writes the projection until the promotion ends; its events wait on the topic.` | quote }}
{{- if ne (default "" .root.Values.projector.history.reconcile) "off" }}
- alert: PenstockProjectorNotVerified
  {{- /* The metric is absent before the first complete comparison. Then the age of the live read models counts. */}}
  {{- $age := int64 $thresholds.verifiedAgeSeconds }}
  expr: time() - max by (projection) (penstock_projector_verified_through_timestamp_seconds{ {{- $pods -}} }) > {{ $age }} or (max by (projection) (penstock_projector_generation_live{ {{- $pods -}} } offset {{ $age }}s) > 0) * 0 + {{ $age }} unless max by (projection) (last_over_time(penstock_projector_verified_through_timestamp_seconds{ {{- $pods -}} }[{{ $age }}s]))
  for: 5m
  labels: {severity: warning}
  annotations:
    summary: Read models are not compared with the event store.
    description: {{ `No complete comparison of projection {{ $labels.projection }} with the event store has begun in the last {{ $value | humanizeDuration }}.` | quote }}
{{- end }}
- alert: PenstockProjectorEventsLost
  expr: sum by (projection) (increase(penstock_projector_reconciled_aggregates_total{ {{- $pods -}} }[15m])) > 0 or sum by (projection) (penstock_projector_reconciled_aggregates_total{ {{- $pods -}} } unless last_over_time(penstock_projector_reconciled_aggregates_total{ {{- $pods -}} }[1d] offset 15m)) > 0
  labels: {severity: warning}
  annotations:
    summary: Events did not reach the projector.
    description: {{ `{{ $value | humanize }} aggregates of projection {{ $labels.projection }} were behind the event store, and were folded from it: the broker lost, expired or dead-lettered their events.` | quote }}
- alert: PenstockProjectorRestarts
  expr: max by (pod) (changes(process_start_time_seconds{ {{- $pods -}} }[1h])) > 2
  labels: {severity: warning}
  annotations:
    summary: A projector restarts again and again.
    description: {{ `The process of pod {{ $labels.pod }} has started {{ $value | humanize }} times in an hour.` | quote }}
- alert: PenstockProjectorOutOfMemory
  expr: max by (pod) (changes(kube_pod_container_status_restarts_total{ {{- $pods -}} }[15m])) > 0 and on (pod) max by (pod) (kube_pod_container_status_last_terminated_reason{ {{- $pods }}, reason="OOMKilled"}) > 0
  labels: {severity: critical}
  annotations:
    summary: A projector was killed for its memory.
    description: {{ `A container of pod {{ $labels.pod }} exceeded its memory limit and was killed in the last 15 minutes.` | quote }}
{{- end }}
