package config

import (
	"errors"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// The upper bounds of settings.
const (
	// maxConnections bounds the connections of a process. A namespace allows 5,000, and
	// Microsoft's emulator 10.
	maxConnections = 64
	// maxSessions bounds the sessions of a process. An entity allows 5,000 receivers.
	maxSessions = 4096
	// maxBatchSize bounds a batch. The SDK receives at most 5,000 messages at once, and
	// more than a few hundred only take memory.
	maxBatchSize = 2048
	// maxBacklog bounds a count of sessions. With pages of 100 it needs at most 1,000
	// requests.
	maxBacklog = 100_000
	// maxInferEvents bounds the events that are read from each end of the event store,
	// and so the time. They are not kept in memory.
	maxInferEvents = 1_000_000
)

func (s ServiceBus) validate() error {
	p := cli.Problems{s.Check()}
	p.Require(s.Subscription != "", "AZURE_SERVICEBUS_SUBSCRIPTION_NAME is not set: set it to the name of a subscription that requires sessions")
	p = append(p, sbus.CheckEntity("AZURE_SERVICEBUS_SUBSCRIPTION_NAME", s.Subscription))
	p.Require(s.Connections >= 0 && s.Connections <= maxConnections, "PENSTOCK_CONNECTIONS is %d: use 1 to %d, or 0 for the receiver's default", s.Connections, maxConnections)
	return errors.Join(p...)
}

func (s Projections) validate() error {
	var p cli.Problems
	p.Require(s.Path != "" || s.InCode, "PENSTOCK_PROJECTIONS is not set: set it to the YAML file of the projections, or to the folder of several")
	p.Require(s.BatchSize >= 1 && s.BatchSize <= maxBatchSize, "PENSTOCK_BATCH_SIZE is %d: use 1 to %d", s.BatchSize, maxBatchSize)
	p.Require(s.LoadBytes >= 1<<20, "PENSTOCK_LOAD_BYTES is %d: use at least 1048576", s.LoadBytes)
	p.Require(s.KeepBytes >= 0, "PENSTOCK_KEEP_BYTES is %d: use 0 to keep nothing, or more", s.KeepBytes)
	p.Require(s.FailureLimit > 0 && s.FailureLimit <= 1, "PENSTOCK_FAILURE_LIMIT is %v: use more than 0 and at most 1", s.FailureLimit)
	p.Require(s.FlushInterval > 0 && s.FlushInterval <= time.Second, "PENSTOCK_FLUSH_INTERVAL is %v: use more than 0 and at most 1s", s.FlushInterval)
	return errors.Join(p...)
}

// CheckSample checks the number of events of an inference. setting is the name of the
// setting, for the error.
func CheckSample(setting string, events int) error {
	var p cli.Problems
	p.Require(events >= 1 && events <= maxInferEvents, "%s is %d: use 1 to %d", setting, events, maxInferEvents)
	return errors.Join(p...)
}

func (c *Config) validateSessions() error {
	var p cli.Problems
	s, idle := &c.Sessions, c.SessionIdle()
	p.Require(s.Slots >= 0 && s.Slots <= maxSessions, "PENSTOCK_SESSIONS is %d: use 1 to %d, or 0 for the receiver's default", s.Slots, maxSessions)
	p.Require(s.Idle >= 0, "PENSTOCK_SESSION_IDLE is %v: use a positive duration, or 0 for the receiver's default", s.Idle)
	p.Require(s.Hold >= idle, "PENSTOCK_SESSION_HOLD is %v, less than PENSTOCK_SESSION_IDLE (%v): use at least as much", s.Hold, idle)
	p.Require(s.Tenure >= time.Second, "PENSTOCK_SESSION_TENURE is %v: use at least 1s", s.Tenure)
	p.Require(s.BufferBytes >= 1<<20, "PENSTOCK_BUFFER_BYTES is %d: use at least 1048576", s.BufferBytes)
	return errors.Join(p...)
}

func (b Backlog) validate() error {
	var p cli.Problems
	p.Require(b.Interval == 0 || b.Interval >= time.Second, "PENSTOCK_BACKLOG_INTERVAL is %v: use at least 1s, or 0 to count no sessions", b.Interval)
	p.Require(b.Limit >= 1 && b.Limit <= maxBacklog, "PENSTOCK_BACKLOG_LIMIT is %d: use 1 to %d", b.Limit, maxBacklog)
	p.Require(b.BehindAfter >= time.Second, "PENSTOCK_BEHIND_AFTER is %v: use at least 1s", b.BehindAfter)
	return errors.Join(p...)
}

func (s Process) validate() error {
	var p cli.Problems
	p.Require(health.ValidAddress(s.AdminAddress), "PENSTOCK_ADMIN_ADDRESS is %q: use [HOST]:PORT, such as :8080", s.AdminAddress)
	if s.QueryAddress != "" {
		p.Require(health.ValidAddress(s.QueryAddress), "PENSTOCK_QUERY_ADDRESS is %q: use [HOST]:PORT, such as :8081, or unset it", s.QueryAddress)
		p.Require(s.QueryAddress != s.AdminAddress, "PENSTOCK_QUERY_ADDRESS is %q, as PENSTOCK_ADMIN_ADDRESS is: use another port", s.QueryAddress)
	}
	p.Require(s.DrainTimeout >= time.Second, "PENSTOCK_DRAIN_TIMEOUT is %v: use at least 1s", s.DrainTimeout)
	p.Require(s.FatalAfter >= 0 && s.FatalAfter <= 24*time.Hour, "PENSTOCK_FATAL_AFTER is %v: use 0s (end at once) to 24h", s.FatalAfter)
	return errors.Join(p...)
}
