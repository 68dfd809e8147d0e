package leader

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Holder is the holder of a lock, for status output. The zero value means that nobody holds
// it.
type Holder struct {
	// Identity is the holder's; empty if nobody holds the lock.
	Identity string
	// RenewedAt is when the holder renewed the lock last, by its own clock.
	RenewedAt time.Time
	// Expired reports that the last renewal is longer ago than the lease lasts, by the
	// clock of this process: the holder has ended or has lost the lock's store.
	Expired bool
	// Until is when the lease ends if it is not renewed, by the holder's clock.
	Until time.Time
}

// Silent reports that the holder has not renewed a lease that has not ended, though a lease of
// that duration would have ended: somebody has changed the lease by hand, or its holder had
// another configuration.
func (h Holder) Silent(duration time.Duration) bool {
	return h.Identity != "" && !h.Expired && time.Since(h.RenewedAt) > duration
}

// ReadHolder reads the holder of a lock. It does not take part in the election.
func ReadHolder(ctx context.Context, lock resourcelock.Interface) (Holder, error) {
	record, _, err := lock.Get(ctx)
	if apierrors.IsNotFound(err) {
		return Holder{}, nil
	}
	if err != nil {
		return Holder{}, err
	}
	holder := Holder{Identity: record.HolderIdentity, RenewedAt: record.RenewTime.Time}
	// A duration cannot hold more than 292 years.
	holder.Until = time.Unix(holder.RenewedAt.Unix()+int64(record.LeaseDurationSeconds), 0).UTC()
	holder.Expired = holder.Identity != "" && time.Now().After(holder.Until)
	return holder, nil
}
