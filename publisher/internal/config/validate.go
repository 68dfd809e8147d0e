package config

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/health"
)

const (
	// retryJitter is the factor by which an attempt to renew may come later than the retry
	// period: client-go's JitterFactor.
	retryJitter = 1.2
	// shortestRetry is the shortest retry period. A standby asks the lock store four times as
	// often.
	shortestRetry = 100 * time.Millisecond
	// stopTime is the least time between the moment at which a leader gives up and the one at
	// which another takes over. If the work has not stopped in the second half of it, the
	// process exits.
	stopTime = time.Second
	// oplogNoop is the interval at which an idle replica set writes to its oplog
	// (periodicNoopIntervalSecs).
	oplogNoop = 10 * time.Second
	// maxConnections bounds the connections. A namespace allows 5,000, and Microsoft's
	// emulator 10.
	maxConnections = 64
	// maxSource bounds the source of CloudEvents, which every message carries.
	maxSource = 1024
)

// Check reports all problems together. Each is a line that starts with its variable and
// ends with the remedy.
func (c *Config) Check() error {
	return errors.Join(
		c.MongoDB.Check(),
		c.ServiceBus.Check(),
		c.EventFields().Check(),
		c.Stream.validate(),
		c.Publish.validate(),
		c.Refusals.validate(),
		c.Election.validate(c.LeaseName()),
		c.Process.validate(),
		c.Tracing.Check(),
	)
}

func (s Stream) validate() error {
	var p cli.Problems
	p.Require(s.Name != "" && !strings.ContainsAny(s.Name, "\x00$"), "PENSTOCK_STREAM is %q: use a name without $", s.Name)
	_, err := s.StartPoint()
	p = append(p, err)
	p.Require(s.PrefetchBytes >= 64<<10, "PENSTOCK_PREFETCH_BYTES is %d: use at least 65536", s.PrefetchBytes)
	p.Require(s.Silence > oplogNoop, "PENSTOCK_STREAM_SILENCE is %v, though an idle replica set moves only every %v: use more, such as 1m", s.Silence, oplogNoop)
	return errors.Join(p...)
}

func (s Publish) validate() error {
	var p cli.Problems
	if s.SessionMode == string(event.SessionPerBucket) {
		p.Require(s.SessionBuckets >= 1 && s.SessionBuckets <= event.MaxSessionBuckets,
			"PENSTOCK_SESSION_BUCKETS is %d: use 1 to %d", s.SessionBuckets, event.MaxSessionBuckets)
	}
	_, err := url.Parse(s.CloudEvents)
	p.Require(err == nil && !strings.ContainsAny(s.CloudEvents, "@;") && len(s.CloudEvents) <= maxSource, "PENSTOCK_CLOUDEVENTS_SOURCE is %q: use a URI of at most %d characters, such as /shop/events", s.CloudEvents, maxSource)
	p.Require(s.Connections >= 1 && s.Connections <= maxConnections,
		"PENSTOCK_CONNECTIONS is %d: use 1 to %d", s.Connections, maxConnections)
	p.Require(s.MaxInflightEvents >= 1, "PENSTOCK_MAX_INFLIGHT_EVENTS is %d: use at least 1, and hundreds to be fast", s.MaxInflightEvents)
	p.Require(s.MaxInflightBytes >= 1<<20, "PENSTOCK_MAX_INFLIGHT_BYTES is %d: use at least 1048576", s.MaxInflightBytes)
	p.Require(s.CheckpointInterval >= 10*time.Millisecond && s.CheckpointInterval <= time.Minute,
		"PENSTOCK_CHECKPOINT_INTERVAL is %v: use 10ms to 1m", s.CheckpointInterval)
	return errors.Join(p...)
}

func (r Refusals) validate() error {
	var p cli.Problems
	p.Require(r.MaxAttempts >= 2 && r.MaxAttempts <= 1000, "PENSTOCK_MAX_SEND_ATTEMPTS is %d: use 2 to 1000", r.MaxAttempts)
	p.Require(r.FatalAfter >= 0 && r.FatalAfter <= 24*time.Hour, "PENSTOCK_FATAL_AFTER is %v: use 0s (end at once) to 24h", r.FatalAfter)
	return errors.Join(p...)
}

func (e Election) validate(leaseName string) error {
	var p cli.Problems
	if e.Kind == ElectionKubernetes {
		p.Require(isDNSName(leaseName), "PENSTOCK_LEASE_NAME is %q, which is not a name of a Kubernetes object: use lower-case letters, digits, - and .", leaseName)
	}
	p.Require(e.LeaseDuration >= time.Second && e.LeaseDuration%time.Second == 0,
		"PENSTOCK_LEASE_DURATION is %v: use whole seconds, since a Lease holds no fractions", e.LeaseDuration)
	p.Require(e.RenewDeadline > 0, "PENSTOCK_LEASE_RENEW_DEADLINE is %v: use a positive duration", e.RenewDeadline)
	p.Require(e.RetryPeriod >= shortestRetry, "PENSTOCK_LEASE_RETRY_PERIOD is %v: use at least %v, because each standby sends several requests in that time", e.RetryPeriod, shortestRetry)
	p.Require(e.LeaseDuration-e.RenewDeadline >= stopTime,
		"PENSTOCK_LEASE_DURATION is %v and PENSTOCK_LEASE_RENEW_DEADLINE %v: the leader must give up and stop before another takes over, so make the duration longer than the deadline by at least %v",
		e.LeaseDuration, e.RenewDeadline, stopTime)
	p.Require(float64(e.RenewDeadline) > retryJitter*float64(e.RetryPeriod),
		"PENSTOCK_LEASE_RENEW_DEADLINE is %v and PENSTOCK_LEASE_RETRY_PERIOD %v: make the deadline more than %v times the period, because otherwise there is only one attempt",
		e.RenewDeadline, e.RetryPeriod, retryJitter)
	return errors.Join(p...)
}

func (s Process) validate() error {
	var p cli.Problems
	p.Require(health.ValidAddress(s.AdminAddress), "PENSTOCK_ADMIN_ADDRESS is %q: use [HOST]:PORT, such as :8080", s.AdminAddress)
	p.Require(s.DrainTimeout >= time.Second, "PENSTOCK_DRAIN_TIMEOUT is %v: use at least 1s", s.DrainTimeout)
	return errors.Join(p...)
}

// isDNSName reports whether s is a DNS subdomain, as the names of Kubernetes objects must
// be.
func isDNSName(s string) bool {
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range label {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
				return false
			}
		}
	}
	return true
}
