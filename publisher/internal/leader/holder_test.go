package leader

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// recorded is a lock that has a record.
type recorded struct {
	resourcelock.Interface
	record *resourcelock.LeaderElectionRecord
}

func (r recorded) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if r.record == nil {
		return nil, nil, apierrors.NewNotFound(leaseResource, "l")
	}
	return r.record, nil, nil
}

func TestReadHolderReportsAnExpiredHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lock := recorded{record: &resourcelock.LeaderElectionRecord{HolderIdentity: "pod", LeaseDurationSeconds: 15, RenewTime: metav1.Now()}}
		<-time.After(15 * time.Second)
		if h, err := ReadHolder(t.Context(), lock); err != nil || h.Identity != "pod" || h.Expired {
			t.Errorf("after 15 s: %+v, %v", h, err)
		}
		<-time.After(time.Second)
		if h, err := ReadHolder(t.Context(), lock); err != nil || !h.Expired {
			t.Errorf("after 16 s: %+v, %v", h, err)
		}
		lock.record.HolderIdentity = ""
		for _, l := range []recorded{lock, {}} {
			if h, err := ReadHolder(t.Context(), l); err != nil || h.Identity != "" || h.Expired {
				t.Errorf("without a holder: %+v, %v", h, err)
			}
		}
	})
}
