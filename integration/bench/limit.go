package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/proc"
)

// Limits, by the names that [RunLimit] accepts.
const (
	limitSend    = "send"
	limitStream  = "stream"
	limitFind    = "find"
	limitReceive = "receive"
	limitWrite   = "write"
)

// limits are the programs of the limits. Each measures itself, from its first event to its
// last.
var limits = map[string]func(ctx context.Context, l *limitRun) error{
	limitSend: sendAll, limitStream: readStream, limitFind: readStore,
	limitReceive: receiveAll, limitWrite: writeAll,
}

// specification is the input of a limit.
type specification struct {
	MongoURI string      `json:"mongoURI"`
	Bus      harness.Bus `json:"bus"`
	// Events is the number of events.
	Events int `json:"events"`
	// From is where a change stream starts.
	From bson.Timestamp `json:"from"`
	// Connections and Slots equal the service's own.
	Connections int `json:"connections,omitempty"`
	Slots       int `json:"slots,omitempty"`
}

// limitResult is the last line that a limit prints.
type limitResult struct {
	Events  int     `json:"events"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpuMicros"`
	Mallocs uint64  `json:"mallocs"`
}

// limitRun is a running limit.
type limitRun struct {
	specification
	client *mongo.Client

	begun         time.Time
	cpuBefore     time.Duration
	mallocsBefore uint64
	result        limitResult
}

// RunLimit runs the limit of that name and prints its result. arguments come from the
// parent process.
func RunLimit(ctx context.Context, name, arguments string, stdout io.Writer) error {
	run, known := limits[name]
	if !known {
		return fmt.Errorf("no limit is called %q; known are %q", name, slices.Sorted(maps.Keys(limits)))
	}
	l := &limitRun{}
	if err := json.Unmarshal([]byte(arguments), &l.specification); err != nil {
		return fmt.Errorf("read the specification of limit %s: %w", name, err)
	}
	client, err := mongo.Connect(options.Client().ApplyURI(l.MongoURI).SetAppName("limit"))
	if err != nil {
		return fmt.Errorf("connect to MongoDB: %w", err)
	}
	l.client = client
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	if err := run(ctx, l); err != nil {
		return fmt.Errorf("limit %s: %w", name, err)
	}
	return json.NewEncoder(stdout).Encode(l.result)
}

// begin starts the clock, and done stops it.
func (l *limitRun) begin() {
	runtime.GC()
	l.cpuBefore, l.mallocsBefore = ownUsage()
	l.begun = time.Now()
}

func (l *limitRun) done(events int) {
	took := time.Since(l.begun)
	cpu, mallocs := ownUsage()
	l.result.Events, l.result.Seconds = events, took.Seconds()
	l.result.CPU, l.result.Mallocs = float64((cpu - l.cpuBefore).Microseconds()), mallocs-l.mallocsBefore
}

// ownUsage returns the resources that this process has used so far.
func ownUsage() (cpu time.Duration, mallocs uint64) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err == nil {
		cpu = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return cpu, memory.Mallocs
}

// specify returns the common part of an environment's specifications. Limits use their own
// subscription of a topic.
func (e *environment) specify(topic string) specification {
	bus := e.backend.Bus()
	bus.Topic, bus.Subscription = topic, limitSubscription
	return specification{MongoURI: e.backend.MongoURI(), Bus: bus, From: e.before}
}

// runLimit runs a limit as a process, like the services, and returns its result.
func (e *environment) runLimit(ctx context.Context, name string, s specification) (*limitResult, error) {
	arguments, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("specify limit %s: %w", name, err)
	}
	p, err := proc.Start(proc.Spec{
		Name: "limit-" + name, Binary: e.Self, Args: []string{"limit", name, string(arguments)}, LogDir: e.dir,
	})
	if err != nil {
		return nil, err
	}
	exit := p.AwaitExit(ctx)
	log, err := os.ReadFile(p.Log)
	if err != nil {
		return nil, err
	}
	if exit != nil {
		return nil, fmt.Errorf("%w: %s", exit, log[max(0, len(log)-logEnd):])
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	var result limitResult
	if err := json.Unmarshal(lines[len(lines)-1], &result); err != nil {
		return nil, fmt.Errorf("read the result of limit %s in %q: %w", name, lines[len(lines)-1], err)
	}
	return &result, nil
}

// limit runs a limit that counts events, and adds it to a row's first figure.
func (e *environment) limit(ctx context.Context, into *reading, title, name string, s specification) error {
	if !e.Limits {
		return nil
	}
	r, err := e.runLimit(ctx, name, s)
	if err != nil {
		return err
	}
	n := float64(r.Events)
	into.limits = append(into.limits, limit{
		figure: figure{title, unitRate, n / r.Seconds}, cpu: r.CPU / n, allocs: float64(r.Mallocs) / n,
	})
	return nil
}
