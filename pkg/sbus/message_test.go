package sbus_test

import (
	"maps"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

func TestToSDK(t *testing.T) {
	t.Parallel()
	m := &event.Message{
		Keys:      event.Keys{AggregateID: "a", EventID: 3, EventType: "T"},
		MessageID: "a/3", SessionKey: "bucket-1", ContentType: "application/json", Body: []byte("{}"), Epoch: 2,
	}
	got := sbus.ToSDK(m)
	if *got.MessageID != "a/3" || *got.SessionID != "bucket-1" || *got.PartitionKey != "bucket-1" || *got.ContentType != "application/json" || *got.Subject != "T" ||
		&got.Body[0] != &m.Body[0] || !maps.Equal(got.ApplicationProperties, m.Properties()) {
		t.Errorf("got %+v", got)
	}
}
