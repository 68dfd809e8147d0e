package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/preflight"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// checkCommand checks what the publisher needs, and changes nothing.
type checkCommand struct{ preflight.Flags }

func (*checkCommand) validate(c *config.Config) error { return c.Check() }

func (c *checkCommand) run(ctx context.Context, e *environment) error {
	p := New(e.options)
	s, err := p.open()
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	var r preflight.Report
	reached := true
	for _, client := range s.Opened {
		reached = r.Reach(ctx, client) && reached
	}
	if reached {
		k := check{&r, p.config, s, p}
		k.events(ctx)
		k.state(ctx)
	}
	checkBus(ctx, &r, p)
	return r.Print(e.stdout, c.Flags)
}

// check runs the checks of MongoDB.
type check struct {
	*preflight.Report
	config config.Config
	stores *stores
	p      *Publisher
}

// events checks the event store.
func (k check) events(ctx context.Context) {
	ctx, cancel := mongox.Timeout(ctx, attemptTimeout)
	defer cancel()
	history := eventstore.NewReader(k.stores.events, k.config.EventFields(), k.p.logger)
	if k.Index(ctx, history, k.stores.events.Database().Name()) {
		k.sample(ctx, history)
	}
	k.stream(ctx, history)
}

// sample checks a sample of events against the contract.
func (k check) sample(ctx context.Context, history *eventstore.Reader) {
	const what = "event store, events"
	sample := k.stores.sample(k.config)
	var counts term.Counts
	var err error
	if sample.IDs, err = history.LearnIDs(ctx); err == nil {
		counts, err = sample.Read(ctx)
	}
	err = mongox.Explain(ctx, err)
	problem, remedy, found := noPayload(counts, k.config.EventFields())
	switch {
	case errors.Is(err, term.ErrUnreadable):
		k.Fail(what, err.Error(), "set PENSTOCK_FIELD_* to the names that the documents have, or correct the writer")
	case err != nil:
		k.Refused(what, err, "grant the user read on database "+k.stores.events.Database().Name())
	case counts.Unreadable > 0:
		k.Warn(what, fmt.Sprintf("%d of a sample of %d break the contract; the latest: %v", counts.Unreadable, counts.Readable+counts.Unreadable, counts.Latest), "correct the writer; \"publisher quarantine list\" shows those that the publisher has met")
	case found:
		k.Warn(what, problem, remedy)
	case counts.Readable == 0:
		k.OK(what, "the store has no event yet outside the quarantine")
	default:
		k.OK(what, fmt.Sprintf("a sample of %d keeps the contract", counts.Readable))
	}
}

// stream opens a change stream in the same way as the leader.
func (k check) stream(ctx context.Context, history *eventstore.Reader) {
	const what = "event store, change stream"
	now, err := history.OperationTime(ctx)
	if err == nil {
		var stream watch.ChangeStream
		if stream, err = watch.NewCollection(k.stores.events).Open(ctx, watch.Position{Time: checkpoint.After(now)}); err == nil {
			err = stream.Close(ctx)
		}
	}
	err = mongox.Explain(ctx, err)
	if err != nil {
		k.Refused(what, err, "grant the user find and changeStream on the collection (the role read)")
		return
	}
	k.OK(what, "can be opened")
}

// state checks the state database: rights, checkpoint, oplog, lock.
func (k check) state(ctx context.Context) {
	k.Writable(ctx, k.stores.state, checkpoint.CollectionName, "state, rights")
	read, err := readCheckpoint(ctx, k.stores, k.config)
	var position time.Time
	switch {
	case err != nil:
		k.Unreached("checkpoint", err.Error(), "check the rights on the state database")
	case read == nil:
		k.OK("checkpoint", "none yet: the publisher starts at "+k.config.Stream.Start)
	default:
		position = watch.TimeOf(term.StreamPosition(read.Position))
		k.pipeline(ctx, read)
	}
	k.Oplog(ctx, k.stores.events.Database().Client(), position, time.Now())
	holder, err := readHolder(ctx, k.config, k.stores.state)
	switch {
	case err != nil:
		k.Unreached("lock", err.Error(), "check the rights on the Lease (get, create, update), or PENSTOCK_ELECTION outside Kubernetes")
	case holder.Identity == "" || holder.Expired:
		k.OK("lock", "nobody holds it")
	default:
		k.OK("lock", holder.Identity+" holds it")
	}
}

// pipeline compares the pipeline that the checkpoint records with the configuration's.
func (k check) pipeline(ctx context.Context, read *checkpoint.State) {
	const what = "checkpoint"
	here, _, err := term.Identify(ctx, k.config, k.stores.events.Database().Client())
	if err == nil && read.Identity != nil {
		checking, cancel := mongox.Timeout(ctx, attemptTimeout)
		defer cancel()
		here.CollectionUUID = read.Identity.CollectionUUID
		err = term.ExplainPipeline(checkpoint.NewStore(checkpoint.Checkpoints(k.stores.state), k.config.Stream.Name, checkpoint.Options{}).Check(checking, here))
	}
	switch {
	case errors.Is(err, checkpoint.ErrOtherPipeline):
		k.Fail(what, "it belongs to another pipeline", err.Error())
	case err != nil:
		k.Unreached(what, err.Error(), "repeat the check")
	default:
		k.OK(what, describe(read.Position))
	}
}

// checkBus checks the topic.
func checkBus(ctx context.Context, r *preflight.Report, p *Publisher) {
	c := p.config.ServiceBus
	namespace, err := sbus.Open(c)
	if err != nil {
		r.Fail("topic", err.Error(), "correct the settings of Service Bus")
		return
	}
	checking, cancel := context.WithTimeout(ctx, topicTimeout)
	defer cancel()
	err = p.tryTopic(checking, namespace)
	switch {
	case err == nil:
		r.OK("topic", fmt.Sprintf("the credentials can send to %s of %s", c.Topic, c.Host()))
	case term.Fatal(err):
		r.Fail("topic", publish.Explain(err, c).Error(), "correct the topic's name, or grant Azure Service Bus Data Sender")
	default:
		r.Unreached("topic", err.Error(), "check the namespace's name, and that the network allows AMQP (port 5671); the service waits for it")
	}
	reportTopic(r, readTopic(ctx, namespace, c.Topic))
}
