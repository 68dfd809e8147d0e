package deadletter_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/event/eventtest"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
)

// letters is a dead-letter queue whose messages can be locked.
type letters struct {
	messages []deadletter.Message
	locked   map[int64]bool
	// elsewhere are the messages that another receiver has locked.
	elsewhere map[int64]bool
	received  int
	abandoned []int64
	// failsAt is the message whose completion fails.
	failsAt int64
}

func (q *letters) Peek(_ context.Context, from int64, limit int) ([]deadletter.Message, error) {
	var page []deadletter.Message
	for _, m := range q.messages {
		if m.Sequence >= from && len(page) < limit {
			page = append(page, m)
		}
	}
	return page, nil
}

func (q *letters) Receive(ctx context.Context, limit int) ([]deadletter.Message, error) {
	var page []deadletter.Message
	for _, m := range q.messages {
		if !q.locked[m.Sequence] && !q.elsewhere[m.Sequence] && len(page) < limit {
			q.locked[m.Sequence] = true
			page = append(page, m)
		}
	}
	q.received += len(page)
	if len(page) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return page, nil
}

func (q *letters) Complete(_ context.Context, m *deadletter.Message) error {
	if !q.locked[m.Sequence] {
		return errors.New("the lock is lost")
	}
	if m.Sequence == q.failsAt {
		return errors.New("the link is lost")
	}
	q.messages = slices.DeleteFunc(q.messages, func(o deadletter.Message) bool { return o.Sequence == m.Sequence })
	return nil
}

func (q *letters) Abandon(_ context.Context, m *deadletter.Message) error {
	q.abandoned = append(q.abandoned, m.Sequence)
	delete(q.locked, m.Sequence)
	return nil
}

func (q *letters) Close(context.Context) error { return nil }

// left returns the sequence numbers of the messages in the queue.
func (q *letters) left() []int64 {
	var left []int64
	for _, m := range q.messages {
		left = append(left, m.Sequence)
	}
	return left
}

// letter returns an event of an aggregate as a dead letter.
func letter(sequence int64, reason, aggregate string, eventID int64) deadletter.Message {
	body := bsontest.Raw(bson.D{
		{Key: "aggregateId", Value: aggregate}, {Key: "eventId", Value: eventID}, {Key: "eventType", Value: "Placed"},
	})
	return deadletter.Message{Sequence: sequence, Reason: reason, ContentType: event.ContentTypeBSON, Body: body}
}

// applied is the last event in the read models of each aggregate. Reading an aggregate
// that is not listed fails.
type applied map[string]int64

func (a applied) Apply(_ context.Context, of deadletter.Aggregate, eventID int64) (bool, error) {
	has, known := a[of.ID]
	if !known || of.Raw.StringValue() != of.ID {
		return false, errors.New("no primary")
	}
	return has >= eventID, nil
}

func heal(t *testing.T, q *letters, a applied, o deadletter.HealerOptions) (removed int, registry *prometheus.Registry, err error) {
	t.Helper()
	registry = prometheus.NewPedanticRegistry()
	o.Dial, o.Applier, o.Reader, o.Registerer = func() (deadletter.Queue, error) { return q, nil }, a, eventtest.Reader(), registry
	o.Reasons = []string{"TTLExpiredException", "MaxDeliveryCountExceeded", "expression"}
	h := deadletter.NewHealer(o)
	defer h.Close()
	q.locked = make(map[int64]bool)
	removed, err = h.Heal(t.Context())
	return removed, registry, err
}

// TestHealerRemovesOnlyMessagesThatTookEffect checks that only messages whose event has
// taken effect are removed, and that the others are neither lost nor left locked.
func TestHealerRemovesOnlyMessagesThatTookEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &letters{messages: []deadletter.Message{
			letter(1, "TTLExpiredException", "a", 4),
			letter(2, "by hand", "a", 3),
			letter(3, "expression", "parked", 9),
			letter(4, "MaxDeliveryCountExceeded", "a", 5),
			letter(5, "TTLExpiredException", "a", 6),
			letter(6, "expression", "unreadable", 1),
			{Sequence: 7, Reason: "TTLExpiredException", Body: []byte("no event"), ContentType: "text/plain"},
			letter(8, "expression", "b", 2),
		}}
		removed, registry, err := heal(t, q, applied{"a": 5, "parked": 8, "b": 2}, deadletter.HealerOptions{})
		if err != nil || removed != 3 || !slices.Equal(q.left(), []int64{2, 3, 5, 6, 7}) {
			t.Errorf("removed %d, left %v, error %v", removed, q.left(), err)
		}
		if !slices.Equal(q.abandoned, []int64{2, 3, 5, 6, 7}) {
			t.Errorf("abandoned %v", q.abandoned)
		}
		want := "# HELP penstock_projector_dead_letters_healed_total Dead letters that were removed because every read model has their event, by the reason that they were dead-lettered for.\n" +
			"# TYPE penstock_projector_dead_letters_healed_total counter\n" +
			"penstock_projector_dead_letters_healed_total{reason=\"MaxDeliveryCountExceeded\"} 1\n" +
			"penstock_projector_dead_letters_healed_total{reason=\"TTLExpiredException\"} 1\n" +
			"penstock_projector_dead_letters_healed_total{reason=\"expression\"} 1\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	})
}

// TestHealerLocksNoMessageIfNoneCanBeRemoved checks that no message is locked if none can
// be removed.
func TestHealerLocksNoMessageIfNoneCanBeRemoved(t *testing.T) {
	t.Parallel()
	q := &letters{messages: []deadletter.Message{letter(1, "expression", "parked", 9), letter(2, "InvalidMessageFormat", "a", 1)}}
	if removed, _, err := heal(t, q, applied{"parked": 8, "a": 7}, deadletter.HealerOptions{}); removed != 0 || err != nil || q.received != 0 {
		t.Errorf("removed %d, received %d, error %v", removed, q.received, err)
	}
}

// TestHealerDoesNotWaitForAMessageLockedByAnother checks that a pass does not wait for a
// message that another receiver has locked.
func TestHealerDoesNotWaitForAMessageLockedByAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &letters{
			messages:  []deadletter.Message{letter(1, "TTLExpiredException", "a", 1), letter(2, "TTLExpiredException", "a", 2)},
			elsewhere: map[int64]bool{1: true},
		}
		start := time.Now()
		removed, _, err := heal(t, q, applied{"a": 2}, deadletter.HealerOptions{})
		if removed != 1 || err != nil || time.Since(start) > 5*time.Second {
			t.Errorf("removed %d after %s, error %v", removed, time.Since(start), err)
		}
	})
}

// TestFailedRemovalUnlocksTheRest checks that after an error, received messages that were
// not removed are unlocked.
func TestFailedRemovalUnlocksTheRest(t *testing.T) {
	t.Parallel()
	q := &letters{failsAt: 4}
	for i, reason := range []string{"SetAside", "TTLExpiredException", "SetAside", "TTLExpiredException", "TTLExpiredException"} {
		q.messages = append(q.messages, letter(int64(i+1), reason, "a", int64(i+1)))
	}
	removed, _, err := heal(t, q, applied{"a": 5}, deadletter.HealerOptions{})
	if removed != 1 || err == nil || !slices.Equal(q.abandoned, []int64{1, 3}) {
		t.Errorf("removed %d, abandoned %v, error %v", removed, q.abandoned, err)
	}
}

// TestPassReceivesABoundedNumberOfMessages checks that a pass receives only a part of a
// long queue.
func TestPassReceivesABoundedNumberOfMessages(t *testing.T) {
	t.Parallel()
	q := &letters{}
	for i := range int64(500) {
		q.messages = append(q.messages, letter(i+1, "expression", "parked", 9))
	}
	q.messages = append(q.messages, letter(501, "TTLExpiredException", "a", 1))
	removed, _, err := heal(t, q, applied{"parked": 1, "a": 1}, deadletter.HealerOptions{Limit: 100})
	if removed != 0 || err != nil || q.received > 0 {
		t.Errorf("removed %d, received %d, error %v", removed, q.received, err)
	}
}
