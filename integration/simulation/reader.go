package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// reader is an application that reads what it has written: it asks a projector by
// GET /applied whether a read model has an event, and reads it when the answer is yes.
type reader struct {
	world   *World
	writers []*writer
	random  *rand.Rand

	mu sync.Mutex
	// answered counts the answers, and findings describe those that were wrong.
	answered int
	findings []string
}

// run asks until ctx ends.
func (r *reader) run(ctx context.Context) {
	host := r.world.network.NewHost(r.world.named("reader"))
	for ctx.Err() == nil {
		wait(ctx, time.Duration(r.random.Int64N(int64(4*time.Second))))
		projector := r.world.projectors[r.random.IntN(len(r.world.projectors))]
		if of, ok := r.writers[r.random.IntN(len(r.writers))].last(); ok {
			if address := projector.queries(); address != "" {
				r.ask(ctx, host.Client(), address, of, pick(r.random, "0s", "500ms", "2s"))
			}
		}
	}
}

// ask asks for one event, and lets the projector wait for it. The result is empty if the projector does
// not answer.
func (r *reader) ask(ctx context.Context, client *http.Client, address string, of commit, wait string) string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	query := url.Values{"projection": {r.world.named("tally")}, "aggregateId": {of.aggregate}, "eventId": {fmt.Sprint(of.event)}, "timeout": {wait}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/applied?"+query.Encode(), nil)
	if err != nil {
		return ""
	}
	response, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Result string `json:"result"`
	}
	if response.StatusCode != http.StatusOK || json.NewDecoder(response.Body).Decode(&answer) != nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered++
	if answer.Result != applied {
		return answer.Result
	}
	if last := number(r.world.model("tally", of.aggregate), "lastEventId"); last < of.event && !r.world.restored.Load() && !r.world.isErased(of.aggregate) {
		r.findings = append(r.findings, fmt.Sprintf("at %v: %s was said to have event %d, and its read model is at event %d",
			time.Since(r.world.history.began), of.aggregate, of.event, last))
	}
	return applied
}

// applied is the result of an event that the read model has.
const applied = "applied"

// checkApplied asks each projector for the last event of a read model: when nothing is left to do, it
// must say that the read model has it.
func checkApplied(ctx context.Context, o *outcome) (findings []string, err error) {
	models := o.world.models("tally")
	if !o.idle || len(models) == 0 {
		return nil, nil
	}
	model := models[o.world.plan.Seed%uint64(len(models))]
	of := commit{aggregate: text(model, "_id"), event: number(model, "lastEventId")}
	client := o.world.network.NewHost(o.world.named("asker")).Client()
	for _, p := range o.world.projectors {
		var result string
		if !within(ctx, 30*time.Second, func() bool {
			result = o.asks.ask(ctx, client, p.queries(), of, "2s")
			return result == applied
		}) {
			findings = append(findings, fmt.Sprintf("%s says %q of %s, which the read model has", p.name(), result, of.messageID()))
		}
	}
	return findings, nil
}
