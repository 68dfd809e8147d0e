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
	lasts := time.Duration(record.LeaseDurationSeconds) * time.Second
	holder.Expired = holder.Identity != "" && time.Since(holder.RenewedAt) > lasts
	return holder, nil
}
