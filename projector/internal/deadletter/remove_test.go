package deadletter_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"

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

// letter returns an event of an aggregate as a dead letter.
func letter(sequence int64, reason string, eventID int64) deadletter.Message {
	body := testkit.Raw(bson.D{
		{Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: eventID}, {Key: "eventType", Value: "Placed"},
	})
	return deadletter.Message{Sequence: sequence, Reason: reason, ContentType: event.ContentTypeBSON, Body: body}
}

// TestRemoveDoesNotWaitForMessagesOfOtherReceivers checks that a message which another
// receiver has locked stays.
func TestRemoveDoesNotWaitForMessagesOfOtherReceivers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &letters{
			messages:  []deadletter.Message{letter(1, "TTLExpiredException", 1), letter(2, "TTLExpiredException", 2)},
			locked:    map[int64]bool{},
			elsewhere: map[int64]bool{1: true},
		}
		start := time.Now()
		removed, err := deadletter.Remove(t.Context(), q, map[int64]bool{1: true, 2: true}, zerolog.Nop())
		if removed != 1 || err != nil || time.Since(start) > 5*time.Second {
			t.Errorf("removed %d after %s, error %v", removed, time.Since(start), err)
		}
	})
}

// TestFailedRemovalUnlocksTheRest checks that after an error, received messages that were
// not removed are unlocked.
func TestFailedRemovalUnlocksTheRest(t *testing.T) {
	t.Parallel()
	q := &letters{failsAt: 4, locked: map[int64]bool{}}
	for i := range int64(500) {
		q.messages = append(q.messages, letter(i+1, "TTLExpiredException", i+1))
	}
	removed, err := deadletter.Remove(t.Context(), q, map[int64]bool{2: true, 4: true}, zerolog.Nop())
	// The second page is that of the failure.
	if removed != 1 || err == nil || q.abandoned[0] != 51 || len(q.abandoned) != 49 || !slices.Equal(q.abandoned[46:], []int64{5, 3, 1}) {
		t.Errorf("removed %d, abandoned %v, error %v", removed, q.abandoned, err)
	}
}

// expiring is a queue whose locks end, so that it begins again.
type expiring struct {
	letters
	until map[int64]time.Time
	lock  time.Duration
}

func (q *expiring) Receive(ctx context.Context, limit int) ([]deadletter.Message, error) {
	testkit.Pass(35 * time.Millisecond)
	for sequence, until := range q.until {
		if time.Now().After(until) {
			delete(q.until, sequence)
			delete(q.locked, sequence)
		}
	}
	page, err := q.letters.Receive(ctx, limit)
	for _, m := range page {
		q.until[m.Sequence] = time.Now().Add(q.lock)
	}
	return page, err
}

// TestRemoveOfAMessageBehindManyOthers chooses the last message of a long queue, with locks that last
// long enough for it and with shorter ones.
func TestRemoveOfAMessageBehindManyOthers(t *testing.T) {
	t.Parallel()
	for lock, want := range map[time.Duration]int{10 * time.Second: 1, time.Second: 0} {
		synctest.Test(t, func(t *testing.T) {
			const messages = 5000
			q := &expiring{letters: letters{locked: map[int64]bool{}}, until: map[int64]time.Time{}, lock: lock}
			for i := range int64(messages) {
				q.messages = append(q.messages, letter(i+1, "MaxDeliveryCountExceeded", i+1))
			}
			removed, err := deadletter.Remove(t.Context(), q, map[int64]bool{messages: true}, zerolog.Nop())
			if removed != want || (err == nil) != (want == 1) || q.received > messages {
				t.Errorf("with locks of %v, removed %d, received %d, error %v", lock, removed, q.received, err)
			}
			if len(q.abandoned) != 0 && q.abandoned[0] < q.abandoned[len(q.abandoned)-1] {
				t.Errorf("message %d is unlocked first", q.abandoned[0])
			}
		})
	}
}
