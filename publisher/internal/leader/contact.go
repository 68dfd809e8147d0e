package leader

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// contact logs when the lock store cannot be reached: once for each kind of consecutive
// failures, and once when it answers again. The zero value logs nothing. A contact outlives
// the terms. Only the elector's goroutine may use it.
type contact struct {
	logger    zerolog.Logger
	heartbeat func()
	// stopping returns an error while the process stops; nil means that it never stops.
	stopping func() error
	// failing is when the first of the consecutive failures was; zero if there is none.
	failing time.Time
	// complaint is the message that was logged last.
	complaint string
}

// asked records the result of a request to the lock store.
func (c *contact) asked(err error) {
	if c.heartbeat != nil {
		c.heartbeat()
	}
	switch {
	case errors.Is(err, context.Canceled): // a stop
	case answered(err):
		if !c.failing.IsZero() {
			c.logger.Info().Stringer("failedFor", time.Since(c.failing).Round(time.Millisecond)).Msg("lease reached again")
			c.failing = time.Time{}
		}
	default:
		level := zerolog.DebugLevel
		if c.failing.IsZero() {
			c.failing, c.complaint = time.Now(), ""
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

// answered reports whether the lock store answered. That no lock exists, or that another
// process was faster, is an answer.
func answered(err error) bool {
	return err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// complaintOf gives the log message for a failure, with the remedy if there is one.
func complaintOf(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "lease forbidden for this process; retrying. Grant its service account get, create and update on leases of coordination.k8s.io"
	case apierrors.IsUnauthorized(err):
		return "API server refuses the credentials; retrying. Check the service account's token or the kubeconfig"
	}
	return "lease not reached; retrying"
}
