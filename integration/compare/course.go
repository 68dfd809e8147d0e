package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/proc"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// disconnectTimeout bounds the end of a course.
const disconnectTimeout = time.Minute

// course is the environment of one contender in one scenario: an empty event store and an
// empty destination.
type course struct {
	*Options
	contender contender
	dir       string
	backend   *harness.Embedded
	pipeline  *harness.Pipeline
	client    *mongo.Client
	sink      sink
	// before is an operation time before the first event.
	before  bson.Timestamp
	running map[int]*proc.Process
}

// newCourse starts the stand-ins, or connects to the MongoDB that is named.
func (o *Options) newCourse(ctx context.Context, who contender) (*course, error) {
	dir, err := os.MkdirTemp("", "penstock-compare-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the logs: %w", err)
	}
	c := &course{Options: o, contender: who, dir: dir, running: map[int]*proc.Process{}}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *course) open(ctx context.Context) (err error) {
	// The topic's record holds everything several times, because programs may start over.
	record := 4 * max(c.Events, int(float64(c.Rate)*c.For.Seconds()))
	if c.backend, err = harness.StartEmbedded(harness.EmbeddedOptions{Record: record}); err != nil {
		return err
	}
	if c.client, err = mongo.Connect(options.Client().ApplyURI(c.MongoURI())); err != nil {
		return fmt.Errorf("connect to the event store: %w", err)
	}
	if err := c.drop(ctx); err != nil {
		return err
	}
	if _, err = c.store().Indexes().CreateOne(ctx, workload.Index()); err != nil {
		return fmt.Errorf("create the event store's index: %w", err)
	}
	if c.before, err = harness.OperationTime(ctx, c.client); err != nil {
		return err
	}
	if c.pipeline, err = harness.NewPipeline(c, harness.PipelineOptions{
		Programs: harness.Binaries{Publisher: c.Publisher}, Dir: c.dir,
		PublisherEnv: []string{
			// The publisher's defaults, which the pipeline would shorten.
			"PENSTOCK_LEASE_DURATION=15s", "PENSTOCK_LEASE_RENEW_DEADLINE=10s", "PENSTOCK_LEASE_RETRY_PERIOD=2s",
			"PENSTOCK_START=beginning", "PENSTOCK_RUN_DIRECTORY=" + c.dir,
		},
	}); err != nil {
		return err
	}
	c.sink = topicSink{c.backend}
	if c.contender.sink != nil {
		c.sink, err = c.contender.sink(c)
	}
	return err
}

// MongoURI implements [harness.Backend].
func (c *course) MongoURI() string {
	if c.Mongo != "" {
		return c.Mongo
	}
	return c.backend.MongoURI()
}

// Databases implements [harness.Backend]. The course drops them before and after.
func (c *course) Databases() harness.Databases {
	return harness.Databases{Events: "penstock-compare", State: "penstock-compare-state", ReadModels: "penstock-compare-models"}
}

// Bus implements [harness.Backend].
func (c *course) Bus() harness.Bus { return c.backend.Bus() }

// MaxConnections implements [harness.Backend].
func (c *course) MaxConnections() int { return c.backend.MaxConnections() }

// Close implements [harness.Backend].
func (c *course) Close() error { return c.close() }

func (c *course) store() *mongo.Collection {
	return c.client.Database(c.Databases().Events).Collection(harness.EventsCollection)
}

// eventFile is the destination of a contender that writes a file.
func (c *course) eventFile() string { return filepath.Join(c.dir, "events.json") }

func (c *course) drop(ctx context.Context) error {
	var errs []error
	for _, name := range []string{c.Databases().Events, c.Databases().State} {
		errs = append(errs, c.client.Database(name).Drop(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("drop the databases: %w", err)
	}
	return nil
}

func (c *course) close() error {
	for _, process := range c.running {
		process.KillGroup()
	}
	ctx, cancel := context.WithTimeout(context.Background(), disconnectTimeout)
	defer cancel()
	var errs []error
	if c.sink != nil {
		errs = append(errs, c.sink.close())
	}
	if c.client != nil {
		errs = append(errs, c.drop(ctx), c.client.Disconnect(ctx))
	}
	if c.backend != nil {
		errs = append(errs, c.backend.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}

// begin starts or restarts instance i.
func (c *course) begin(i int) (*proc.Process, time.Time, error) {
	if before := c.running[i]; before != nil {
		before.KillGroup() // a plugin outlives the program that was killed
	}
	at := time.Now()
	process, err := c.contender.start(c, i)
	if err != nil {
		return nil, at, err
	}
	c.running[i] = process
	return process, at, nil
}

// load stores events.
func (c *course) load(ctx context.Context, events []workload.Event) error {
	const most = 10_000
	for len(events) > 0 {
		n := min(most, len(events))
		if _, err := c.store().InsertMany(ctx, events[:n]); err != nil {
			return fmt.Errorf("store the events: %w", err)
		}
		events = events[n:]
	}
	return nil
}

// poll is the pause between two looks at a condition.
const poll = 2 * time.Millisecond

// await waits until n distinct events have arrived, or no further one arrives for a while:
// then the program has lost some. It is an error if a program ends before, unless it does so
// after the snapshot.
func (c *course) await(ctx context.Context, n int) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	last, _ := c.sink.counts()
	since := time.Now()
	for last < n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d events, of which %d have arrived: %w", n, last, context.Cause(ctx))
		}
		if now, _ := c.sink.counts(); now != last {
			last, since = now, time.Now()
		}
		for _, process := range c.running {
			if !process.Running() && !c.contender.snapshotOnly {
				return fmt.Errorf("%s has ended (%w) after %d of %d events; %s", process.Name, process.Err(), last, n, c.logs())
			}
		}
		if time.Since(since) < c.silence() {
			continue
		}
		if last == 0 {
			return fmt.Errorf("no event has arrived within %s; %s", c.silence(), c.logs())
		}
		return nil
	}
	return nil
}

// settle waits until a second passes without an arrival, so that repeats count too.
func (c *course) settle(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for _, last := c.sink.counts(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the last repeat: %w", context.Cause(ctx))
		}
		_, now := c.sink.counts()
		if now == last {
			return nil
		}
		last = now
	}
}

// silence is after which time without an arrival no further one is expected.
func (c *course) silence() time.Duration { return max(30*time.Second, c.For) }

// logs returns the end of what the programs have logged.
func (c *course) logs() string {
	const most = 2000
	var text strings.Builder
	for _, process := range c.running {
		log, _ := os.ReadFile(process.Log)
		fmt.Fprintf(&text, "the log of %s ends with\n%s\n", process.Name, log[max(0, len(log)-most):])
	}
	return text.String()
}

// usage is what the running programs have used so far.
type usage struct {
	cpu  time.Duration
	peak int64
}

func (c *course) usage() (usage, error) {
	var u usage
	for _, process := range c.running {
		cpu, err := process.CPUTime()
		if err != nil {
			return u, err
		}
		peak, err := process.MaxResident()
		if err != nil {
			return u, err
		}
		u.cpu, u.peak = u.cpu+cpu, u.peak+peak
	}
	return u, nil
}
