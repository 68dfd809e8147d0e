package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/httpserver"
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

// Validate returns all problems of the service's configuration in one error. Each problem
// is a line that starts with the variable and ends with the remedy.
func (c *Config) Validate() error {
	return c.ValidateParts(PartAll)
}

// problems collects problems of the configuration.
type problems []error

func (p *problems) require(ok bool, format string, args ...any) {
	if !ok {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

func (s ServiceBus) validate() error {
	p := problems{s.Validate()}
	p.require(s.Subscription != "", "AZURE_SERVICEBUS_SUBSCRIPTION_NAME is not set: set it to the name of a subscription that requires sessions")
	if err := sbus.CheckEntity("AZURE_SERVICEBUS_SUBSCRIPTION_NAME", s.Subscription); err != nil {
		p = append(p, err)
	}
	p.require(s.Connections >= 0 && s.Connections <= maxConnections, "PENSTOCK_CONNECTIONS is %d: use 1 to %d, or 0 for the receiver's default", s.Connections, maxConnections)
	return errors.Join(p...)
}

func (s Projections) validate() error {
	var p problems
	p.require(s.InferEvents == "", "--infer-events is the command infer now: run \"projector infer %s\"", s.InferEvents)
	p.require(s.Path != "" || s.InCode, "PENSTOCK_PROJECTIONS is not set: set it to the YAML file of the projections, or to the folder of several")
	p.require(s.Adopt == "" || len(s.Adopt) == 12 && strings.Trim(s.Adopt, "0123456789abcdef") == "",
		"PENSTOCK_ADOPT_READ_MODELS is %q: use the code of 12 characters that the projector prints when it refuses to start, or unset it", s.Adopt)
	p.require(s.BatchSize >= 1 && s.BatchSize <= maxBatchSize, "PENSTOCK_BATCH_SIZE is %d: use 1 to %d", s.BatchSize, maxBatchSize)
	p.require(s.LoadBytes >= 1<<20, "PENSTOCK_LOAD_BYTES is %d: use at least 1048576", s.LoadBytes)
	p.require(s.KeepBytes >= 0, "PENSTOCK_KEEP_BYTES is %d: use 0 to keep nothing, or more", s.KeepBytes)
	p.require(s.FailureLimit > 0 && s.FailureLimit <= 1, "PENSTOCK_FAILURE_LIMIT is %v: use more than 0 and at most 1", s.FailureLimit)
	p.require(s.FlushInterval > 0 && s.FlushInterval <= time.Second, "PENSTOCK_FLUSH_INTERVAL is %v: use more than 0 and at most 1s", s.FlushInterval)
	return errors.Join(p...)
}

// CheckSample checks the number of events of an inference. setting is the name of the
// setting, for the error.
func CheckSample(setting string, events int) error {
	var p problems
	p.require(events >= 1 && events <= maxInferEvents, "%s is %d: use 1 to %d", setting, events, maxInferEvents)
	return errors.Join(p...)
}

func (c *Config) validateSessions() error {
	var p problems
	s, idle := &c.Sessions, c.SessionIdle()
	p.require(s.Slots >= 0 && s.Slots <= maxSessions, "PENSTOCK_SESSIONS is %d: use 1 to %d, or 0 for the receiver's default", s.Slots, maxSessions)
	p.require(s.Idle >= 0, "PENSTOCK_SESSION_IDLE is %v: use a positive duration, or 0 for the receiver's default", s.Idle)
	p.require(s.Hold >= idle, "PENSTOCK_SESSION_HOLD is %v, less than PENSTOCK_SESSION_IDLE (%v): use at least as much", s.Hold, idle)
	p.require(s.Tenure >= time.Second, "PENSTOCK_SESSION_TENURE is %v: use at least 1s", s.Tenure)
	p.require(s.GapHold > 0, "PENSTOCK_GAP_HOLD is %v: use a positive duration", s.GapHold)
	p.require(s.GapTimeout >= s.GapHold, "PENSTOCK_GAP_TIMEOUT is %v, less than PENSTOCK_GAP_HOLD (%v): use more", s.GapTimeout, s.GapHold)
	p.require(s.GapPatience == "", "PENSTOCK_GAP_PATIENCE is called PENSTOCK_GAP_TIMEOUT now: rename it")
	p.require(s.ParkAfter >= time.Second, "PENSTOCK_PARK_AFTER is %v: use at least 1s", s.ParkAfter)
	p.require(s.BufferBytes >= 1<<20, "PENSTOCK_BUFFER_BYTES is %d: use at least 1048576", s.BufferBytes)
	return errors.Join(p...)
}

func (b Backlog) validate() error {
	var p problems
	p.require(b.Interval == 0 || b.Interval >= time.Second, "PENSTOCK_BACKLOG_INTERVAL is %v: use at least 1s, or 0 to count no sessions", b.Interval)
	p.require(b.Limit >= 1 && b.Limit <= maxBacklog, "PENSTOCK_BACKLOG_LIMIT is %d: use 1 to %d", b.Limit, maxBacklog)
	return errors.Join(p...)
}

func (s Process) validate() error {
	var p problems
	p.require(httpserver.ValidAddress(s.AdminAddress), "PENSTOCK_ADMIN_ADDRESS is %q: use [HOST]:PORT, such as :8080", s.AdminAddress)
	if s.QueryAddress != "" {
		p.require(httpserver.ValidAddress(s.QueryAddress), "PENSTOCK_QUERY_ADDRESS is %q: use [HOST]:PORT, such as :8081, or unset it", s.QueryAddress)
		p.require(s.QueryAddress != s.AdminAddress, "PENSTOCK_QUERY_ADDRESS is %q, as PENSTOCK_ADMIN_ADDRESS is: use another port", s.QueryAddress)
	}
	p.require(s.DrainTimeout >= time.Second, "PENSTOCK_DRAIN_TIMEOUT is %v: use at least 1s", s.DrainTimeout)
	p.require(s.FatalAfter >= 0 && s.FatalAfter <= 24*time.Hour, "PENSTOCK_FATAL_AFTER is %v: use 0s (end at once) to 24h", s.FatalAfter)
	return errors.Join(p...)
}
