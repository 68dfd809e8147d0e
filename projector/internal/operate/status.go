package operate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// statusCommand shows the state of the projectors. It reads the stores alone and asks no
// process.
type statusCommand struct{ cli.Output }

// statusView is the state of the projectors of an event store.
type statusView struct {
	// EventStore is the database and the collection of the events, and StateDatabase is the
	// database that was read.
	EventStore    string           `json:"eventStore"`
	StateDatabase string           `json:"stateDatabase"`
	Pipelines     []pipelineStatus `json:"pipelines"`
	// Jobs are the jobs that have not ended.
	Jobs   []job.Job      `json:"jobs"`
	Parked []parkedStatus `json:"parked"`
	// DeadLetters counts the dead letters of the configured subscription by reason, among
	// the first 1,000. It is nil if no subscription is configured or the queue could not be
	// read.
	DeadLetters map[string]int `json:"deadLetters"`
	// MoreDeadLetters says that the queue may have more.
	MoreDeadLetters bool `json:"moreDeadLetters,omitempty"`
	// Unhandled are types of the newest events that are in no read model.
	Unhandled []unhandledType `json:"unhandled,omitempty"`
	// Unused are aggregate types of projections that are probably misspelt.
	Unused []string `json:"unused,omitempty"`
	// Unknown has the reason for each part that could not be read.
	Unknown map[string]string `json:"unknown,omitempty"`
}

// pipelineStatus is the state of the projectors of one subscription.
type pipelineStatus struct {
	Pipeline string `json:"pipeline"`
	// Verdict is the verdict of the pods, together with what the command finds itself.
	health.Verdict
	// Backlog is what the pods report of the events that wait, with the figures below: of each the
	// largest number that a pod reports.
	Backlog     map[string]float64 `json:"backlog"`
	Pods        []podStatus        `json:"pods"`
	Projections []projectionStatus `json:"projections"`
}

// The figures of a projector's health report.
const (
	// FigureBacklog is the number of sessions that have messages, and FigureLimit the number at
	// which counting ends.
	FigureBacklog = "sessionsWithMessages"
	FigureLimit   = "sessionsCounted"
	// FigureWaited is how long events that were received in the last minute had waited in the
	// subscription, and FigureWrite how long the slowest write of the last minute took.
	FigureWaited = "longestWaitSeconds"
	FigureWrite  = "slowestWriteSeconds"
)

// podStatus is a running projector.
type podStatus struct {
	Pod       string    `json:"pod"`
	StartedAt time.Time `json:"startedAt"`
	// Serves is how many generations the projector writes.
	Serves int `json:"serves"`
	// HeardSeconds is the time since the pod's last report. A pod that was killed is listed until
	// its registration expires.
	HeardSeconds *float64 `json:"heardSeconds,omitempty"`
}

// projectionStatus is a projection, with the result of its verifications.
type projectionStatus struct {
	projectionView
	// VerifiedThrough is the time up to which every read model has been compared with the
	// event store; nil before the first verification.
	VerifiedThrough *time.Time `json:"verifiedThrough,omitempty"`
}

// parkedStatus counts parked aggregates.
type parkedStatus struct {
	Projection string `json:"projection"`
	Generation int64  `json:"generation"`
	Reason     string `json:"reason"`
	Discarded  bool   `json:"discarded,omitempty"`
	Aggregates int64  `json:"aggregates"`
}

// statusDeadLetters bounds the dead letters that are counted.
const statusDeadLetters = 1000

func (c *statusCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	looking, cancel := mongox.Timeout(ctx, peekTimeout)
	defer cancel()
	view, err := e.status(looking, s)
	if err != nil {
		return mongox.Explain(looking, err)
	}
	if c.JSON() {
		err = cli.PrintJSON(e.stdout, view)
	} else {
		err = printLines(e.stdout, "status", func(p printer) { p.status(view, time.Now()) })
	}
	if err != nil {
		return err
	}
	if len(view.Pipelines) == 0 || slices.ContainsFunc(view.Pipelines, func(p pipelineStatus) bool { return len(p.Pods) == 0 }) {
		return cli.ErrFindings
	}
	return nil
}

// status collects the status of the pipelines of the configured event store.
func (e *Environment) status(ctx context.Context, s *stored) (statusView, error) {
	view := statusView{EventStore: e.Config.Pipeline().EventStore, StateDatabase: s.State.Name(), Pipelines: []pipelineStatus{}, Jobs: []job.Job{}, Parked: []parkedStatus{}, Unknown: map[string]string{}}
	found, err := s.entries(ctx)
	if err != nil {
		return view, err
	}
	pipelines := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if p := found[name].Pipeline; e.Config.Pipeline().SameEvents(p) {
			pipelines[p] = append(pipelines[p], name)
		}
	}
	var names []string
	for _, pipeline := range slices.Sorted(maps.Keys(pipelines)) {
		p, err := pipelineOn(ctx, s, pipeline, pipelines[pipeline], found)
		if err != nil {
			return view, err
		}
		if len(p.Pods) == 0 && !slices.ContainsFunc(pipelines[pipeline], func(name string) bool { return found[name].RetiredAt == nil }) {
			continue // it needs no projector any more
		}
		view.Pipelines = append(view.Pipelines, p)
		names = append(names, pipelines[pipeline]...)
	}
	jobs, err := s.jobs.List(ctx, job.Filter{})
	if err != nil {
		return view, err
	}
	for _, j := range jobs {
		if !j.State.Ended() && slices.Contains(names, j.Projection) {
			view.Jobs = append(view.Jobs, j)
		}
	}
	parked, err := s.parked.Count(ctx)
	if err != nil {
		return view, err
	}
	view.Parked = parkedIn(parked, names)
	if e.Config.ValidateParts(config.PartServiceBus) == nil {
		letters, err := e.countDeadLetters(ctx)
		if err != nil {
			view.Unknown["deadLetters"] = err.Error()
		}
		view.DeadLetters, view.MoreDeadLetters = letters.Messages, letters.Bounded
	}
	if view.Unhandled, view.Unused, err = e.unhandled(ctx, s, found); err != nil {
		view.Unknown["eventTypes"] = err.Error()
	}
	for i := range view.Pipelines {
		if err := e.judge(ctx, s, &view.Pipelines[i], found, parked, deadletter.Count{Messages: view.DeadLetters, Bounded: view.MoreDeadLetters}); err != nil {
			return view, err
		}
	}
	return view, nil
}

// judge makes the verdict on the projectors of a pipeline.
func (e *Environment) judge(ctx context.Context, s *stored, p *pipelineStatus, entries map[string]*catalog.Entry, parked map[park.Group]int64, deadLetters deadletter.Count) error {
	reports, err := health.NewReports(s.State, "projector", p.Pipeline).List(ctx)
	if err != nil {
		return err
	}
	p.report(reports)
	var conditions []health.Condition
	if len(p.Pods) == 0 && !slices.ContainsFunc(reports, unregistered) {
		conditions = append(conditions, health.Condition{
			Name: "no-projector", State: health.NotReady, Text: "no projector is running, so read models get no events",
			Remedy: "Events wait in the subscription. Start projectors, or look at why their pods do not start.",
		})
	}
	own := maps.Clone(entries)
	maps.DeleteFunc(own, func(_ string, entry *catalog.Entry) bool { return entry.Pipeline != p.Pipeline })
	conditions = append(conditions, catalog.BuildConditions(own)...)
	conditions = append(conditions, ParkedConditions(ParkedKinds(parked, own))...)
	verifications, err := s.jobs.List(ctx, job.Filter{Kinds: []job.Kind{job.Verify}, States: []job.State{job.Done}})
	if err != nil {
		return err
	}
	conditions = append(conditions, WrongConditions(verifications, own)...)
	looked := []string{"parked", "build-failed", wrongReadModels}
	if p.Pipeline == e.Config.Pipeline().String() && deadLetters.Messages != nil {
		conditions = append(conditions, deadletter.Conditions(deadLetters)...)
		looked = append(looked, "dead-letters")
	}
	p.Verdict = health.Together(append(conditions, silentConditions(p.Pods, reports)...), reports, looked...)
	return nil
}

// report takes the figures and the ages of reports.
func (p *pipelineStatus) report(reports []health.Report) {
	p.Backlog = map[string]float64{}
	for _, r := range reports {
		for name, value := range r.Figures {
			p.Backlog[name] = max(p.Backlog[name], value)
		}
		for i := range p.Pods {
			if p.Pods[i].Pod == r.Process {
				age := r.Age.Seconds()
				p.Pods[i].HeardSeconds = &age
			}
		}
	}
}

// unregistered reports whether a process runs, but cannot renew its registration.
func unregistered(r health.Report) bool {
	return slices.ContainsFunc(r.Verdict.Conditions, func(c health.Condition) bool { return c.Name == catalog.Unregistered })
}

// reportSilence is how long a pod may run before it reports its health.
const reportSilence = time.Minute

// silentConditions says which pods run without reporting their health.
func silentConditions(pods []podStatus, reports []health.Report) []health.Condition {
	var found []health.Condition
	for _, pod := range pods {
		if time.Since(pod.StartedAt) < reportSilence || slices.ContainsFunc(reports, func(r health.Report) bool { return r.Process == pod.Pod }) {
			continue
		}
		found = append(found, health.Condition{
			Name: "not-reported", Subject: pod.Pod, State: health.Degraded,
			Text:   fmt.Sprintf("pod %s runs, but does not report its health", pod.Pod),
			Remedy: "Its log says why: it has another version, or the state database refuses the report.",
		})
	}
	return found
}

// pipelineOn reads the status of the projectors of one pipeline.
func pipelineOn(ctx context.Context, s *stored, pipeline string, names []string, found map[string]*catalog.Entry) (pipelineStatus, error) {
	p := pipelineStatus{Pipeline: pipeline, Pods: []podStatus{}}
	alive, err := s.alive(ctx, pipeline)
	if err != nil {
		return p, err
	}
	for _, r := range alive {
		p.Pods = append(p.Pods, podStatus{Pod: r.Pod, StartedAt: r.StartedAt, Serves: len(r.Serves)})
	}
	slices.SortFunc(p.Pods, func(a, b podStatus) int { return cmp.Compare(a.Pod, b.Pod) })
	sweeps, err := s.jobs.Latest(ctx, job.Reconcile)
	if err != nil {
		return p, fmt.Errorf("read up to when read models are verified: %w", err)
	}
	for _, name := range names {
		status := projectionStatus{projectionView: viewProjection(found[name], false)}
		if last := sweeps[name]; status.Live != nil && last.DoneGeneration == status.Live.Generation {
			status.VerifiedThrough = &last.Done
		}
		p.Projections = append(p.Projections, status)
	}
	return p, nil
}

// parkedIn selects the counts of projections.
func parkedIn(counts map[park.Group]int64, names []string) []parkedStatus {
	all := []parkedStatus{}
	for group, n := range counts {
		if slices.Contains(names, group.Projection) {
			all = append(all, parkedStatus{group.Projection, max(group.Generation, catalog.First), group.Reason, group.Discarded, n})
		}
	}
	slices.SortFunc(all, func(a, b parkedStatus) int {
		return cmp.Or(cmp.Compare(a.Projection, b.Projection), cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// countDeadLetters counts the dead letters of the configured subscription by reason.
func (e *Environment) countDeadLetters(ctx context.Context) (deadletter.Count, error) {
	counted := deadletter.Count{Messages: map[string]int{}}
	err := e.withDeadLetters(ctx, func(q deadletter.Queue) (err error) {
		counted.Bounded, err = deadletter.Peek(ctx, q, statusDeadLetters, func(m *deadletter.Message) { counted.Messages[m.Reason]++ })
		return err
	})
	if err != nil {
		return deadletter.Count{}, err
	}
	return counted, nil
}

// status prints the status on one screen.
func (p printer) status(view statusView, now time.Time) {
	if len(view.Pipelines) == 0 {
		p.line(0, "no projection of event store %s is in use, as far as database %s (PENSTOCK_STATE_DATABASE) shows", view.EventStore, view.StateDatabase)
	}
	for _, pipeline := range view.Pipelines {
		p.pipeline(pipeline, now)
	}
	for _, j := range view.Jobs {
		p.line(0, "job %s: %s", j.ID, progressOf(j))
	}
	p.parked(view.Parked)
	more := ""
	if view.MoreDeadLetters {
		more = " or more"
	}
	for _, reason := range slices.Sorted(maps.Keys(view.DeadLetters)) {
		p.line(0, "dead letters, %s: %d%s", reason, view.DeadLetters[reason], more)
	}
	if len(view.Unhandled) > 0 {
		p.line(0, "no projection handles, among the newest events: %s", listTypes(view.Unhandled))
	}
	if len(view.Unused) > 0 {
		p.line(0, "projections, among the newest events: %s", strings.Join(view.Unused, " "))
	}
	for _, what := range slices.Sorted(maps.Keys(view.Unknown)) {
		p.line(0, "%s: unknown: %s", what, view.Unknown[what])
	}
}

// parked prints a line for each reason, with the projections.
func (p printer) parked(counts []parkedStatus) {
	type kind struct {
		reason    string
		discarded bool
	}
	lines := map[kind]string{}
	for _, k := range counts {
		of := kind{k.Reason, k.Discarded}
		if lines[of] == "" {
			lines[of] = "parked, " + k.Reason + ": "
			if k.Discarded {
				lines[of] = "discarded, " + k.Reason + ": "
			}
		} else {
			lines[of] += ", "
		}
		lines[of] += fmt.Sprintf("%s in %s (generation %d)", cli.Count(k.Aggregates, "aggregate"), k.Projection, k.Generation)
	}
	for _, line := range slices.Sorted(maps.Values(lines)) {
		p.line(0, "%s", line)
	}
}

// progressOf describes the state of a job and what it has done.
func progressOf(j job.Job) string {
	parts := []string{string(j.State)}
	if j.Ranges > 0 {
		parts = append(parts, ranges(j)+" ranges")
	}
	for _, text := range []string{counts(j), j.Reason} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

func (p printer) pipeline(s pipelineStatus, now time.Time) {
	p.line(0, "pipeline %s: %s", s.Pipeline, s.State)
	for _, c := range s.Conditions {
		p.line(1, "%s", c)
	}
	p.backlog(s.Backlog)
	for _, pod := range s.Pods {
		heard := ""
		if pod.HeardSeconds != nil && *pod.HeardSeconds > lateReport.Seconds() {
			heard = fmt.Sprintf(", last heard %.0f s ago", *pod.HeardSeconds)
		}
		p.line(1, "pod %s: up for %s, writes %s%s", pod.Pod, cli.Age(now, pod.StartedAt), cli.Count(int64(pod.Serves), "generation"), heard)
	}
	for _, q := range s.Projections {
		text := q.State
		if q.Live != nil {
			text += fmt.Sprintf(", generation %d in %s", q.Live.Generation, q.Live.Collection)
		}
		if q.VerifiedThrough != nil {
			text += fmt.Sprintf(", complete through %s", cli.Time(*q.VerifiedThrough))
		}
		if b := q.Building; b != nil {
			text += fmt.Sprintf("; generation %d is %s", b.Generation, b.State)
			if b.Reason != "" {
				text += ": " + b.Reason
			}
		}
		kind := "projection"
		if q.ViewOf != nil {
			kind = "view"
		}
		p.line(1, "%s %s: %s", kind, q.Name, text)
	}
}

// lateReport is the age of a report from which on the pod may have been killed.
const lateReport = 10 * time.Second

// backlog prints what waits, and for how long.
func (p printer) backlog(figures map[string]float64) {
	var parts []string
	if n, ok := figures[FigureBacklog]; ok {
		sessions := cli.Count(int64(n), "session")
		if n >= figures[FigureLimit] {
			sessions += " or more"
		}
		parts = append(parts, sessions+" with messages")
	}
	if waited, ok := figures[FigureWaited]; ok {
		parts = append(parts, fmt.Sprintf("events waited up to %.1f s", waited))
	}
	if write, ok := figures[FigureWrite]; ok {
		parts = append(parts, fmt.Sprintf("the slowest write took %.3f s", write))
	}
	if len(parts) > 0 {
		p.line(1, "in the last minute: %s", strings.Join(parts, ", "))
	}
}
