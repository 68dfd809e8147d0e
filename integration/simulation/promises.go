package simulation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/verify"
	"github.com/penstock-cdc/penstock/integration/virtual"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// outcome is what a history has left behind in one pipeline, as the validators need it.
type outcome struct {
	world   *World
	writers []*writer
	watched *observer
	asks    *reader
	settles *settlements
	// written are the acknowledged events, and unreadable those without an id.
	written, unreadable []commit
	// events are the readable events of each aggregate, in order.
	events map[string][]storedEvent
	// version is the definition that every projector had in the end.
	version int
	// idle says that at one instant, the pipeline had nothing left to do.
	idle bool
}

// promise is one promise of ARCHITECTURE.md with the validator that looks for a breach. A
// validator returns descriptions of breaches.
type promise struct {
	name  string
	check func(ctx context.Context, o *outcome) ([]string, error)
}

// noted is a validator whose breaches were noted during the history.
func noted(breaches func(o *outcome) []string) func(context.Context, *outcome) ([]string, error) {
	return func(_ context.Context, o *outcome) ([]string, error) { return breaches(o), nil }
}

// promises are checked after each history.
var promises = []promise{
	{"G1, G2, G7: every event reaches the topic, also if the oplog is lost, and first occurrences in order", checkTopic},
	{"G1: a message has the event as it is stored", checkMessages},
	{"G1: the checkpoint is never ahead of the topic", checkCheckpoint},
	{"G3, G5, G8: read models equal the fold of the event store", checkReadModels},
	{"G4: at most one instance leads", noted(func(o *outcome) []string { return o.world.history.overlaps() })},
	{"G4: the checkpoint of a term never goes back", noted(func(o *outcome) []string { return o.watched.back })},
	{"G8: no change of the catalog or of a registration overwrites a later one", noted(func(o *outcome) []string { return o.watched.overwritten })},
	{"G3, G6: a message is settled only when its event is applied or listed", noted(func(o *outcome) []string { return o.settles.findings })},
	{"G5, G6: every event that is not applied is listed", checkListed},
	{"G8: readers see whole read models of one version, which never go back", checkReaders},
	{"Erasure: an erased aggregate leaves no trace", checkErased},
	{"G8: a promotion deletes no document of an application", noted(func(o *outcome) []string { return o.world.trampled })},
	{"G8: what strikes when nothing is left to do has its effect in time", noted(func(o *outcome) []string { return o.world.unmet })},
	{"Erasure: findings hold no values", checkFindings},
	{"G8: GET /applied says in the end that a read model has its last event", checkApplied},
	{"G8: GET /applied says that a read model has an event only if it has", noted(func(o *outcome) []string { return o.asks.findings })},
	{"G8: every rebuild ends", checkBuilds},
	{"Processes run, and hold nothing when nothing is left to do", checkLevels},
	{"Liveness: a pipeline has nothing left to do some time after the last fault", func(_ context.Context, o *outcome) ([]string, error) {
		if o.idle {
			return nil, nil
		}
		return []string{fmt.Sprintf("it still has something to do after %v", Settle)}, nil
	}},
	{"G8: a generation has one definition, and the live one only rises", noted(func(o *outcome) []string { return o.watched.reused })},
	{"G8: the command verify finds what an independent fold finds", checkVerify},
	{"G8: the command verify finds a value that somebody has changed", checkChanged},
}

// load reads the event store.
func (o *outcome) load() error {
	o.events = make(map[string][]storedEvent)
	for _, raw := range o.world.mongo.Documents(eventsDatabase, o.world.named("events")) {
		var ev storedEvent
		if err := bson.Unmarshal(raw, &ev); err != nil {
			return fmt.Errorf("read the event store: %w", err)
		}
		if raw.Lookup("eventId").Type != 0 {
			o.events[ev.AggregateID] = append(o.events[ev.AggregateID], ev)
		}
	}
	for _, events := range o.events {
		slices.SortFunc(events, func(a, b storedEvent) int { return cmp.Compare(a.EventID, b.EventID) })
	}
	return nil
}

// settled reports whether the pipeline has nothing left to do. The promises about the end
// are asked, because nobody outside of a projector sees a watermark that is still to come.
func (o *outcome) settled(ctx context.Context) (bool, error) {
	for _, check := range []func(context.Context, *outcome) ([]string, error){checkTopic, checkBuilds, checkReadModels, checkListed, checkErased, checkLevels, checkVerify} {
		if findings, err := check(ctx, o); err != nil || len(findings) > 0 {
			return false, err
		}
	}
	return true, nil
}

// checkBuilds finds the builds that have not ended: until then, a promotion may change what verify
// reads. A build of a projection that has one definition must not fail either.
func checkBuilds(_ context.Context, o *outcome) ([]string, error) {
	var findings []string
	for _, entry := range o.world.state("projections") {
		name, state := text(entry, "_id"), text(entry, "building", "state")
		oneDefinition := slices.Contains([]string{o.world.named("tally"), o.world.named("steps")}, name)
		if o.world.owns(name) && state != "" && (state != "failed" || oneDefinition) {
			findings = append(findings, fmt.Sprintf("the build of %s is %s: %s", name, state, text(entry, "building", "reason")))
		}
	}
	return findings, nil
}

func checkTopic(_ context.Context, o *outcome) ([]string, error) {
	messages, err := o.world.bus.Accepted(o.world.topic())
	if err != nil {
		return nil, err
	}
	type key struct {
		aggregate string
		event     int64
	}
	// The order of late events and of those that the topic has refused, and the events that
	// operators have skipped or archived, do not count: a rank is the number of an event among the others of
	// its aggregate; 0 if it does not count.
	ranks := make(map[key]int64)
	for i := range o.written {
		if c := &o.written[i]; c.late || o.world.refused[c.messageID()] || o.world.skipped(c) || o.world.isArchived(c) {
			ranks[key{c.aggregate, c.event}] = 0
		}
	}
	var events []workload.Event
	for id, list := range o.events {
		last := int64(0)
		for _, ev := range list {
			k := key{id, ev.EventID}
			if _, ok := ranks[k]; !ok {
				last++
				ranks[k] = last
				events = append(events, workload.Event{AggregateID: id, EventID: last})
			}
		}
	}
	var accepted []verify.Accepted
	for _, m := range messages {
		aggregate, event, ok := splitMessageID(m.MessageID)
		if !ok {
			return []string{fmt.Sprintf("the message id %q is not <aggregateId>/<eventId>", m.MessageID)}, nil
		}
		rank, stored := ranks[key{aggregate, event}]
		if !stored {
			rank = math.MaxInt64
		}
		if rank > 0 && !m.Duplicate && !o.world.isDeleted(aggregate) {
			accepted = append(accepted, verify.Accepted{MessageID: m.MessageID, SessionID: m.SessionID, AggregateID: aggregate, EventID: rank, Epoch: m.Epoch, At: m.AcceptedAt})
		}
	}
	findings := verify.Topic(accepted, events).Findings
	for i := range o.written {
		c := &o.written[i]
		id := c.messageID()
		if (c.late || o.world.refused[id]) && !o.world.skipped(c) && !o.world.isErased(c.aggregate) && !o.world.isArchived(c) && !slices.ContainsFunc(messages, func(m sbemu.Accepted) bool { return m.MessageID == id }) {
			findings = append(findings, id+" was stored late, or refused at first, and is not published")
		}
	}
	return findings, nil
}

// checkMessages compares the bodies of the messages with the events, without those that were corrected
// and without what an erasure masks: a message may have the version of before.
func checkMessages(_ context.Context, o *outcome) ([]string, error) {
	messages, err := o.world.bus.Accepted(o.world.topic())
	if err != nil {
		return nil, err
	}
	stored := make(map[string]bson.Raw)
	for _, raw := range o.world.mongo.Documents(eventsDatabase, o.world.named("events")) {
		c := commit{aggregate: text(raw, "aggregateId"), event: number(raw, "eventId")}
		if !slices.Contains(o.world.corrected[c.aggregate], c.event) {
			stored[c.messageID()] = raw
		}
	}
	var findings []string
	for _, m := range messages {
		event, ok := stored[m.MessageID]
		if !ok {
			continue
		}
		var want, sent bson.M
		err := bson.Unmarshal(event, &want)
		if bytes.HasPrefix(m.Body, []byte("{")) {
			err = errors.Join(err, bson.UnmarshalExtJSON(m.Body, false, &sent))
		} else {
			err = errors.Join(err, bson.Unmarshal(m.Body, &sent))
		}
		if err != nil {
			findings = append(findings, fmt.Sprintf("read the message of %s: %v", m.MessageID, err))
			continue
		}
		for _, d := range []bson.M{want, sent} {
			payload, _ := d["payload"].(bson.D)
			if aggregate, _, _ := splitMessageID(m.MessageID); o.world.isErased(aggregate) {
				d["payload"] = slices.DeleteFunc(payload, func(e bson.E) bool { return e.Key == "name" })
			}
			if text(event, "payload", "filler") != "" {
				delete(d, "payload") // the message is a claim check
			}
		}
		if !reflect.DeepEqual(verify.Plain(sent), verify.Plain(want)) {
			findings = append(findings, fmt.Sprintf("the message of %s has %v, and the event is %v", m.MessageID, sent, want))
		}
	}
	return findings, nil
}

func splitMessageID(id string) (aggregate string, event int64, ok bool) {
	aggregate, number, _ := strings.Cut(id, "/")
	event, err := strconv.ParseInt(number, 10, 64)
	return aggregate, event, err == nil
}

// firstAccepted returns when the topic accepted each message for the first time, by its id.
func (o *outcome) firstAccepted() (map[string]time.Time, error) {
	messages, err := o.world.bus.Accepted(o.world.topic())
	if err != nil {
		return nil, err
	}
	first := make(map[string]time.Time)
	for _, m := range slices.Backward(messages) {
		first[m.MessageID] = m.AcceptedAt
	}
	return first, nil
}

func checkCheckpoint(_ context.Context, o *outcome) ([]string, error) {
	first, err := o.firstAccepted()
	if err != nil {
		return nil, err
	}
	// In the order of the positions, each with the time from which on the checkpoint was
	// behind it.
	saved := slices.SortedFunc(slices.Values(o.watched.saved), func(a, b position) int { return a.at.Compare(b.at) })
	for i := len(saved) - 2; i >= 0; i-- {
		if later := saved[i+1].read; later.Before(saved[i].read) {
			saved[i].read = later
		}
	}
	var findings []string
	for _, c := range o.written {
		// The events of a transaction have one time, and the checkpoint can be between two of
		// them.
		i, _ := slices.BinarySearchFunc(saved, c.at, func(s position, at bson.Timestamp) int {
			if s.at.After(at) {
				return 1
			}
			return -1
		})
		if i == len(saved) || o.world.skipped(&c) || o.world.isDeleted(c.aggregate) || o.world.isArchived(&c) {
			continue
		}
		if o.world.refused[c.messageID()] {
			continue // the checkpoint passes what is in the quarantine
		}
		if at, ok := first[c.messageID()]; !ok || at.After(saved[i].read) {
			findings = append(findings, fmt.Sprintf("at %v the checkpoint is behind event %s/%d, which the topic has not accepted yet (%v)", saved[i].read, c.aggregate, c.event, at))
		}
	}
	return findings, nil
}

// checkReaders returns what a reader must never see. A read model may go back in one case: a
// projector has written an event to the live generation, and was killed before it wrote it to the
// next one, which was promoted before the message was delivered again. The
// observer leaves out erased aggregates: they are folded again while their messages arrive late.
func checkReaders(_ context.Context, o *outcome) ([]string, error) {
	findings := o.watched.findings
	for _, r := range o.watched.regressions {
		if !r.promoted || !r.unsettled {
			findings = append(findings, fmt.Sprintf("at %v: ledger %s went back from event %d to %d", r.at, r.id, r.from, r.to))
		}
	}
	return findings, nil
}

func checkReadModels(_ context.Context, o *outcome) ([]string, error) {
	var findings []string
	for collection, fold := range map[string]func(int, []storedEvent) expected{"ledger": foldLedger, "tally": foldTally} {
		found, err := o.compare(collection, fold)
		if err != nil {
			return nil, err
		}
		findings = append(findings, found...)
	}
	found, err := o.compareViews()
	if err != nil {
		return nil, err
	}
	findings = append(findings, found...)
	slices.Sort(findings)
	return findings, nil
}

// compare compares the read models of a collection with the fold of every aggregate.
func (o *outcome) compare(collection string, fold func(int, []storedEvent) expected) ([]string, error) {
	var findings []string
	found := make(map[string]bson.M)
	for _, raw := range o.world.models(collection) {
		var d bson.M
		if err := bson.Unmarshal(raw, &d); err != nil {
			return nil, fmt.Errorf("read %s: %w", collection, err)
		}
		found[text(raw, "_id")] = verify.Plain(d).(bson.M)
	}
	watermarks, live := o.watermarks(collection), o.world.generations()[o.world.named(collection)]
	for id, events := range o.events {
		e := fold(o.version, events)
		got := found[id]
		delete(found, id)
		switch {
		case e.document == nil && got != nil:
			findings = append(findings, fmt.Sprintf("%s %s is visible, and its aggregate is closed: %v", collection, id, got))
		case e.document == nil && e.last > 0 && watermarks[id] != e.last && !o.world.isErased(id):
			findings = append(findings, fmt.Sprintf("%s %s is closed, and its watermark is at event %d, not %d", collection, id, watermarks[id], e.last))
		case e.document != nil && got == nil:
			findings = append(findings, fmt.Sprintf("%s %s is missing; its last event is %d", collection, id, e.last))
		case e.document != nil:
			if got["lastEventId"] != e.last {
				findings = append(findings, fmt.Sprintf("%s %s is at event %v, not %d", collection, id, got["lastEventId"], e.last))
				continue
			}
			if got["lastGeneration"] != live {
				findings = append(findings, fmt.Sprintf("%s %s is of generation %v, and %d is live", collection, id, got["lastGeneration"], live))
			}
			for _, name := range []string{"_id", "lastEventId", "lastUpdatedAt", "lastGeneration"} {
				delete(got, name)
			}
			if !reflect.DeepEqual(got, e.document) {
				findings = append(findings, fmt.Sprintf("%s %s is %v, not %v", collection, id, got, e.document))
			}
		}
	}
	for id := range found {
		findings = append(findings, fmt.Sprintf("%s %s is there, and no event speaks of it", collection, id))
	}
	return findings, nil
}

// watermarks returns those of the aggregates without a read model in the live generation of a
// projection.
func (o *outcome) watermarks(projection string) map[string]int64 {
	name := o.world.named(projection)
	live := number(withID(o.world.state("projections"), name), "live", "generation")
	found := make(map[string]int64)
	for _, w := range o.world.stores.Documents(modelsDatabase, "watermarks") {
		if text(w, "_id", "projection") == name && number(w, "_id", "generation") == live {
			found[text(w, "_id", "aggregateId")] = number(w, "lastEventId")
		}
	}
	return found
}

// checkListed compares the parked list and the quarantine with what cannot be applied.
func checkListed(_ context.Context, o *outcome) ([]string, error) {
	due := make(map[string]int64)
	for id, events := range o.events {
		if e := foldLedger(o.version, events); e.parked > 0 { // no aggregate begins with a poison event
			due[o.world.named("ledger/"+id)], due[o.world.named("groups/"+id)] = e.parked, e.parked
		}
	}
	var findings []string
	listed := make(map[string]bool) // by more than one generation during a rebuild
	for _, m := range o.world.state("parked") {
		projection, event := text(m, "_id", "projection"), number(m, "eventId")
		key := projection + "/" + text(m, "_id", "aggregateId")
		if !o.world.owns(projection) {
			if !slices.ContainsFunc(o.world.pipelines, func(w *World) bool { return w.owns(projection) }) {
				findings = append(findings, key+" is parked, and no pipeline has the projection")
			}
			continue
		}
		if o.world.abandoned(projection, number(m, "_id", "generation")) {
			continue // a pod that was suspended during the promotion has parked it
		}
		listed[key] = true
		if at, ok := due[key]; !ok || at != event || text(m, "reason") != "expression" {
			findings = append(findings, fmt.Sprintf("%s is parked at event %d (%s: %s)", key, event, text(m, "reason"), text(m, "error")))
		}
	}
	for key, event := range due {
		if !listed[key] {
			findings = append(findings, fmt.Sprintf("%s cannot apply event %d and is not parked", key, event))
		}
	}
	quarantined := make(map[string]int)
	for _, record := range o.world.state("quarantine") {
		switch stream, id := text(record, "_id", "stream"), text(record, "aggregateId"); {
		case stream == o.world.named("events"):
			// The record of an event that the topic refused stays when the event is archived.
			if !o.world.isArchived(&commit{aggregate: id, event: number(record, "eventId")}) {
				quarantined[id]++
			}
		case !slices.ContainsFunc(o.world.pipelines, func(w *World) bool { return w.named("events") == stream }):
			findings = append(findings, fmt.Sprintf("the quarantine has an event of the stream %q, which no pipeline has", stream))
		}
	}
	for i := range o.unreadable { // each is the only event of its aggregate
		c := &o.unreadable[i]
		if len(o.world.corrected[c.aggregate]) > 0 || o.world.isErased(c.aggregate) {
			continue
		}
		if n := quarantined[c.aggregate]; n == 0 && !o.world.skipped(c) || n > 1 {
			findings = append(findings, fmt.Sprintf("the quarantine has the unreadable event of %s %d times", c.aggregate, n))
		}
		delete(quarantined, c.aggregate)
	}
	for id, n := range quarantined {
		findings = append(findings, fmt.Sprintf("the quarantine has %d events of %q, which can be published", n, id))
	}
	return findings, nil
}

// abandoned reports whether a generation was given up. Markers that pods write for that generation
// afterwards are removed an hour later.
func (w *World) abandoned(projection string, generation int64) bool {
	array, _ := withID(w.state("projections"), projection).Lookup("garbage").ArrayOK()
	garbage, _ := array.Values()
	return slices.ContainsFunc(garbage, func(g bson.RawValue) bool { return number(g.Document(), "generation") == generation })
}

// checkVerify runs the command verify. Once nothing is left to do, verify has just run, so it is not
// repeated unless another pipeline may have worked since.
func checkVerify(ctx context.Context, o *outcome) ([]string, error) {
	if o.idle && len(o.world.pipelines) == 1 {
		return nil, nil
	}
	var findings []string
	if err := o.world.command(ctx, virtual.Projector, "verify", "--grace", "5s"); err != nil {
		findings = append(findings, err.Error())
	}
	return findings, nil
}

// checkChanged changes a number of a read model or of a view's document by hand, lets verify look, and
// changes it back. It comes last, because readers would see the change.
func checkChanged(ctx context.Context, o *outcome) ([]string, error) {
	projection := []string{"ledger", "tally", "groups", "steps"}[o.world.plan.Seed%4]
	models := o.world.models(projection)
	if !o.idle || len(models) == 0 {
		return nil, nil
	}
	model := models[o.world.plan.Seed/4%uint64(len(models))]
	elements, err := model.Elements()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", projection, err)
	}
	at := slices.IndexFunc(elements, func(e bson.RawElement) bool {
		return e.Value().Type == bson.TypeInt64 && !strings.HasPrefix(e.Key(), "last")
	})
	if at < 0 {
		return nil, nil
	}
	collection := o.world.stores.client.Database(modelsDatabase).Collection(o.world.live(projection))
	change := func(n int64) {
		until(ctx, func() error {
			_, err := collection.UpdateByID(ctx, model.Lookup("_id"), bson.D{{Key: "$inc", Value: bson.D{{Key: elements[at].Key(), Value: n}}}})
			return err
		})
	}
	const much = 77_000_000_000
	change(much)
	found := o.world.command(ctx, virtual.Projector, "verify", "--grace", "5s")
	change(-much)
	id, value := text(model, "_id"), fmt.Sprint(elements[at].Value().AsInt64()+much)
	kept := fmt.Sprint(o.world.state("findings"))
	if found == nil || !strings.Contains(found.Error(), id) || strings.Contains(found.Error()+kept, value) {
		return []string{fmt.Sprintf("%s of %s in %s was changed by hand, and verify says: %v; it keeps %s", elements[at].Key(), id, projection, found, kept)}, nil
	}
	return nil, nil
}
