package leader

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A process that crashes again and again must not keep the lease from a healthy standby.
func TestOnlyTheLeaseOfASteadyTermIsSucceeded(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		holder string
		lasted time.Duration
		want   string
	}{
		{"dead", time.Hour, ""},
		{"dead", time.Minute, ""},
		{"dead", time.Minute - time.Second, "dead"},
		{"dead", 0, "dead"},
		{"living", time.Hour, "living"},
		{"", 0, ""},
	} {
		lock := Succeed(recorded{record: &resourcelock.LeaderElectionRecord{
			HolderIdentity: c.holder, AcquireTime: metav1.NewTime(began), RenewTime: metav1.NewTime(began.Add(c.lasted)),
		}}, []string{"dead"})
		record, _, err := lock.Get(t.Context())
		if err != nil || record.HolderIdentity != c.want {
			t.Errorf("a term of %q that lasted %v is read as one of %q, not %q: %v", c.holder, c.lasted, record.HolderIdentity, c.want, err)
		}
	}
}
