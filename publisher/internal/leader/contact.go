package leader

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// contact logs that the lock store cannot be reached: once for each kind of failure in a
// row, and once when it answers again. The zero value logs nothing. A contact outlives the
// terms. Only the elector's goroutine may use it.
type contact struct {
	logger    zerolog.Logger
	heartbeat func()
	// stopping reports, by an error, that the process is stopping; nil: it never is.
	stopping func() error
	// failing is since when requests have been failing; zero: they have not.
	failing time.Time
	// complaint is what was told last.
	complaint string
}

// asked notes what a request to the lock store came to.
func (c *contact) asked(err error) {
	if c.heartbeat != nil {
		c.heartbeat()
	}
	switch {
	case errors.Is(err, context.Canceled): // a stop
	case answered(err):
		if !c.failing.IsZero() {
			c.logger.Info().Stringer("failedFor", time.Since(c.failing).Round(time.Millisecond)).Msg("the lease can be reached again")
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

// answered reports whether the lock store did its part: to find no lock, or that another
// was faster, is an answer.
func answered(err error) bool {
	return err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// complaintOf says what failed, with the remedy if there is one.
func complaintOf(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "the lease is out of bounds for this process; trying on. Grant its service account get, create and update on leases of coordination.k8s.io"
	case apierrors.IsUnauthorized(err):
		return "the API server refuses the credentials; trying on. Check the service account's token or the kubeconfig"
	}
	return "the lease cannot be reached; trying on"
}
