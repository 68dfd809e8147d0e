package app

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// publishRate is the flag of the commands that publish events beside the leader. The
// default leaves room for live events on the smallest namespace: the standard tier grants
// 1,000 credits per second, and with one subscription a message takes two of them
// (learn.microsoft.com/azure/service-bus-messaging/service-bus-throttling).
type publishRate struct {
	Rate int `name:"rate" default:"250" placeholder:"N" help:"Events per second that are sent at most, so that live events keep their share of the namespace and do not wait in the subscriptions; 0 means no limit."`
}

// Validate checks the flags for the commands that embed them. kong calls it.
func (r publishRate) Validate() error {
	if r.Rate < 0 {
		return fmt.Errorf("--rate is %d: use a positive number of events per second, or 0 for no limit", r.Rate)
	}
	return nil
}

// limiter returns a limiter that grants the events of the first second at once.
func (r publishRate) limiter() *rate.Limiter {
	if r.Rate == 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(r.Rate), r.Rate)
}

// duration says how long the events take, for the question of a command. It is empty if the
// rate does not delay them.
func (r publishRate) duration(events int64) string {
	if r.Rate == 0 || events <= int64(r.Rate) {
		return ""
	}
	takes := time.Duration(float64(events-int64(r.Rate)) / float64(r.Rate) * float64(time.Second))
	return fmt.Sprintf(" at %d events per second, which takes about %s", r.Rate, poll.Duration(takes))
}
