package leader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// codeNotWritablePrimary is the error of MongoDB for a write to a secondary.
const codeNotWritablePrimary = 10107

// contact records whether the lock store answers. It logs when the store cannot be reached:
// once for each kind of consecutive failures, and once when it answers again. The zero value
// logs nothing. A contact outlives the terms. Except for check, only the elector's goroutine
// may use it.
type contact struct {
	logger    zerolog.Logger
	heartbeat func()
	// stopping returns an error while the process stops; nil means that it never stops.
	stopping func() error
	// complaint is the message that was logged last.
	complaint string
	// unwritten says that the last write failed. renewed is the renewal in the record that was read
	// last: only another one, or a write, shows that the lock works again. A secondary answers
	// reads, and takes no write.
	unwritten bool
	renewed   time.Time

	mu sync.Mutex
	// reached says that the lock store has answered at least once.
	reached bool
	// failing is when the first of the consecutive failures was, and failure is the last of
	// them; zero and nil if there is none.
	failing time.Time
	failure error
}

// read records the result of a read of the lock.
func (c *contact) read(record *resourcelock.LeaderElectionRecord, err error) {
	if c.unwritten && answered(err) && (err != nil || record.RenewTime.Time.Equal(c.renewed)) {
		c.beat()
		return
	}
	if err == nil {
		c.unwritten, c.renewed = false, record.RenewTime.Time
	}
	c.asked(err)
}

// wrote records the result of a write of the lock.
func (c *contact) wrote(err error) {
	c.unwritten = !answered(err)
	c.asked(err)
}

func (c *contact) beat() {
	if c.heartbeat != nil {
		c.heartbeat()
	}
}

// asked records the result of a request to the lock store.
func (c *contact) asked(err error) {
	c.beat()
	if errors.Is(err, context.Canceled) { // a stop
		return
	}
	since := c.record(err)
	switch {
	case answered(err):
		if !since.IsZero() {
			c.logger.Info().Stringer("failedFor", time.Since(since).Round(time.Millisecond)).Msg("lease reached again")
		}
	default:
		level := zerolog.DebugLevel
		if since.IsZero() {
			c.complaint = ""
		}
		if complaint := complaintOf(err); complaint != c.complaint {
			level, c.complaint = zerolog.ErrorLevel, complaint
		}
		if c.stopping != nil && c.stopping() != nil {
			// An uninstall can delete the service account before the pods have stopped.
			c.logger.WithLevel(min(level, zerolog.InfoLevel)).Err(err).Msg("lease not reached while stopping; it expires by itself")
			return
		}
		c.logger.WithLevel(level).Err(err).Msg(c.complaint)
	}
}

// record keeps the result of a request, and returns since when the requests before it had
// failed; zero if the last of them was answered.
func (c *contact) record(err error) (failing time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	failing = c.failing
	if answered(err) {
		c.reached, c.failing, c.failure = true, time.Time{}, nil
		return failing
	}
	if c.failure = err; failing.IsZero() {
		c.failing = time.Now()
	}
	return failing
}

// check returns why this process cannot take part in the election: the lock store has never
// answered, or has failed for longer than lease. It is safe for concurrent use.
func (c *contact) check(lease time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		if !c.reached {
			return errors.New("lease has not been read yet")
		}
		return nil
	}
	lasts := time.Since(c.failing)
	if c.reached && lasts < lease {
		return nil
	}
	return fmt.Errorf("%s (for %s): %w", complaintOf(c.failure), poll.Duration(lasts), c.failure)
}

// answered reports whether the lock store answered. That no lock exists, or that another
// process was faster, is an answer.
func answered(err error) bool {
	return err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// complaintOf gives the log message for a failure, with the remedy if there is one.
func complaintOf(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "lease forbidden for this process; retrying. Grant its service account get and update on the lease. If the lease does not exist, create it, as the chart does, or grant create on leases of coordination.k8s.io"
	case apierrors.IsUnauthorized(err):
		return "API server refuses the credentials; retrying. Check the service account's token or the kubeconfig"
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, mongox.ErrNoAnswer) || os.IsTimeout(err) {
		return "lease not reached in time; retrying. A request may take 0.3 of the renew deadline: if the lock store is always slower than that, nobody leads. Raise PENSTOCK_LEASE_RENEW_DEADLINE and PENSTOCK_LEASE_DURATION"
	}
	if mongox.HasCode(err, codeNotWritablePrimary) {
		return "lease not written, because the server of the connection is no primary; retrying. To lead, " + mongox.RemedyNotPrimary
	}
	return "lease not reached; retrying"
}
