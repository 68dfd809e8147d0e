package e2e_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// attackPublisher starts a publisher with the chart's memory limit, and ten neighbours whose
// events must reach the topic in time. Meanwhile it runs the attack, until over reports its end.
func attackPublisher(t *testing.T, what string, attack func(s *scenario) error, over func(s *scenario) bool) {
	t.Helper()
	s := newScenario(t, &workload.Workload{Projections: []byte("projections: []\n")})
	s.SetEnv(publisherGoMem)
	publisher := s.startPublisher(0)
	s.ready()
	n := s.startNeighboursUpTo(s.topicWatermarks, "Test", "Happened")
	attacked := make(chan error, 1)
	n.work.Go(func() { attacked <- attack(s) })
	n.while(what, func() bool {
		select {
		case err := <-attacked:
			if err != nil {
				t.Fatal(err)
			}
			attacked = nil
		default:
		}
		return attacked == nil && over(s)
	})
	s.fitsChart(publisher)
}

// stored is an event in the event store.
func stored(aggregate string, id int64, payload any) bson.D {
	return bson.D{
		{Key: "aggregateId", Value: aggregate}, {Key: "aggregateType", Value: "Test"}, {Key: "eventId", Value: id},
		{Key: "eventType", Value: "Happened"}, {Key: "timestamp", Value: time.Now()}, {Key: "payload", Value: payload},
	}
}

// crammed is a payload of about size bytes with as many elements of that type and value as
// possible.
func crammed(size int, kind bson.Type, value []byte) bson.Raw {
	element := append([]byte{byte(kind), 0}, value...)
	payload := make([]byte, 4, size+len(element))
	for len(payload) < size {
		payload = append(payload, element...)
	}
	payload = append(payload, 0)
	binary.LittleEndian.PutUint32(payload, uint32(len(payload)))
	return payload
}

// onTopic counts the events of the aggregates with that prefix on the topic, and checks the
// order of their first occurrences.
func (s *scenario) onTopic(prefix string) int {
	s.t.Helper()
	accepted, err := s.backend.Accepted()
	if err != nil {
		s.t.Fatal(err)
	}
	count, last := 0, make(map[string]int64)
	for _, m := range accepted {
		if !strings.HasPrefix(m.AggregateID, prefix) || m.EventID <= last[m.AggregateID] {
			continue
		}
		if m.EventID != last[m.AggregateID]+1 {
			s.t.Fatalf("event %d of %s is on the topic after event %d", m.EventID, m.AggregateID, last[m.AggregateID])
		}
		last[m.AggregateID] = m.EventID
		count++
	}
	return count
}

// Events of almost 16 MiB have up to 13 times that in JSON. Several of them at the same time
// must not stop the publisher.
func TestLargestEventsDoNotStopThePublisher(t *testing.T) {
	needsProcesses(t) // it measures how long events take, so nothing else runs meanwhile
	needsStandIns(t, "uploads 93 MB")
	const size, length = 15_500_000, 100_000
	text := append(append(binary.LittleEndian.AppendUint32(nil, length+1), slices.Repeat([]byte{1}, length)...), 0)
	control := crammed(size, bson.TypeString, text)
	bombs := []bson.Raw{
		control, control, control, control,
		crammed(size, bson.TypeRegex, []byte{0, 0}), crammed(size, bson.TypeObjectID, make([]byte, 12)),
	}
	attackPublisher(t, "the large events on the topic", func(s *scenario) error {
		for i, bomb := range bombs {
			if _, err := s.events.InsertOne(t.Context(), stored(fmt.Sprint("bomb-", i), 1, bomb)); err != nil {
				return err
			}
		}
		return nil
	}, func(s *scenario) bool { return s.onTopic("bomb-") == len(bombs) })
}

// A projector reads events by claim check that are larger than any message. Those of many
// sessions at the same time must not exhaust its memory.
func TestLargestEventsDoNotStopTheProjector(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	const aggregates, size = 24, 12_000_000
	needsStandIns(t, "uploads 288 MB")
	s := newScenarioOn(t, &workload.Workload{Collections: []string{"large"}, Projections: []byte(`
projections:
  - name: large
    collection: large
    on:
      Happened: {inc: {count: "1"}}
`)}, harness.TopicOptions{}, projectorGoMem)
	s.startPublisher(0)
	s.ready()
	payload := crammed(size, bson.TypeInt32, binary.LittleEndian.AppendUint32(nil, 7))
	for i := range aggregates {
		if _, err := s.events.InsertOne(t.Context(), stored(fmt.Sprint("bomb-", i), 1, payload)); err != nil {
			t.Fatal(err)
		}
	}
	s.await("the large events on the topic", func() bool { return s.onTopic("bomb-") == aggregates })
	projector := s.startProjector(0)
	s.await("the read models of the large events", func() bool {
		n, err := s.models.Collection("large").CountDocuments(t.Context(), bson.D{{Key: "lastEventId", Value: 1}, {Key: "count", Value: 1}})
		return err == nil && n == aggregates
	})
	s.fitsChart(projector)
}
