package readmodel

import (
	"bytes"
	"fmt"
	"reflect"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// expected is the expected state of a projection.
type expected struct {
	document  bson.M
	watermark int64
	parked    int64
}

// foldOrders is the projection orders, written a second time by hand.
func foldOrders(history []*event.Event) expected {
	var e expected
	for _, ev := range history {
		sku := ev.Payload.Document().Lookup("sku").StringValue()
		quantity := ev.Payload.Document().Lookup("quantity").Int64()
		d := e.document
		switch ev.EventType {
		case "Created", "ItemAdded":
			if d == nil {
				d = bson.M{}
				e.document = d
			}
		}
		number := func(key string) int64 { n, _ := d[key].(int64); return n }
		skus, _ := d["skus"].(bson.A)
		switch ev.EventType {
		case "Created":
			d["status"], d["customer"], d["address"] = "new", "c"+ev.AggregateID, bson.M{"zip": "z" + sku}
			d["created"] = number("created") + 1
		case "ItemAdded":
			d["items"] = number("items") + quantity
			total, _ := d["totals"].(bson.M)
			before, _ := total["quantity"].(int64)
			d["totals"] = bson.M{"quantity": before + quantity}
			lines, _ := d["lines"].(bson.A)
			d["lines"] = append(lines, bson.M{"sku": sku, "quantity": quantity})
			has := false
			for _, s := range skus {
				has = has || s == sku
			}
			if !has {
				d["skus"] = append(skus, sku)
			}
			if most, ok := d["most"].(int64); !ok || quantity > most {
				d["most"] = quantity
			}
			if least, ok := d["least"].(int64); !ok || quantity < least {
				d["least"] = quantity
			}
		case "ItemRemoved":
			kept, has := bson.A{}, false
			for _, s := range skus {
				if s == sku {
					has = true
				} else {
					kept = append(kept, s)
				}
			}
			if has {
				status, ok := d["status"].(string)
				if !ok {
					e.parked = ev.EventID
					return e
				}
				d["status"] = status + "-"
				d["skus"] = kept
				delete(d, "address")
			}
		case "Cancelled":
			e.document = nil
		case "Broken":
			if number("items") > 3 {
				e.parked = ev.EventID
				return e
			}
		}
		e.watermark = ev.EventID
	}
	return e
}

func foldJournal(history []*event.Event) expected {
	var e expected
	for _, ev := range history {
		e.watermark = ev.EventID
		switch ev.EventType {
		case "ItemAdded", "Cancelled":
			if e.document == nil {
				e.document = bson.M{}
			}
		}
		switch ev.EventType {
		case "ItemAdded":
			n, _ := e.document["count"].(int64)
			ids, _ := e.document["ids"].(bson.A)
			e.document["count"], e.document["ids"] = n+1, append(ids, ev.EventID)
		case "Cancelled":
			e.document["cancelled"] = ev.EventID
		}
	}
	return e
}

// totals is the state of the projection in Go. It is created and deleted by every second
// event of a kind.
type totals struct {
	Events int64   `bson:"events"`
	IDs    []int64 `bson:"ids"`
}

func applyTotals(state projection.State, ev *event.Event) (projection.State, error) {
	var t totals
	if state != nil {
		if err := bson.Unmarshal(state, &t); err != nil {
			return nil, err
		}
	}
	switch ev.EventType {
	case "Cancelled":
		return nil, nil
	case "Noted":
		return state, nil
	}
	t.Events++
	t.IDs = append(t.IDs, ev.EventID)
	return bson.Marshal(t)
}

func foldTotals(history []*event.Event) expected {
	var e expected
	for _, ev := range history {
		e.watermark = ev.EventID
		switch ev.EventType {
		case "Cancelled":
			e.document = nil
		case "Noted":
		default:
			if e.document == nil {
				e.document = bson.M{"events": int64(0), "ids": bson.A(nil)}
			}
			e.document["events"] = e.document["events"].(int64) + 1
			e.document["ids"] = append(e.document["ids"].(bson.A), ev.EventID)
		}
	}
	return e
}

// folds are the projections by name.
var folds = map[string]func([]*event.Event) expected{"orders": foldOrders, "journal": foldJournal, "totals": foldTotals}

func unitOf(name, aggregate string) model.Unit {
	return model.Unit{Projection: name, Generation: 1, Collection: name, AggregateID: aggregate, Deletes: name != "journal"}
}

// compare compares every read model and watermark with the expected ones.
func (s *scenario) compare(documentsOf func(collection string) map[string]bson.Raw, parking *memoryParking) error {
	for name, fold := range folds {
		documents, sides := documentsOf(name), documentsOf(watermarksCollection)
		for _, history := range s.histories {
			id := history[0].AggregateID
			want := fold(history)
			if at := parking.parked[unitOf(name, id)]; at != want.parked {
				return fmt.Errorf("%s of %s is parked at %d, not at %d", name, id, at, want.parked)
			}
			if err := want.compare(documents[id], sides[name+"/"+id]); err != nil {
				return fmt.Errorf("%s of %s: %w", name, id, err)
			}
		}
	}
	return nil
}

// compareRefused is for runs in which documents were refused. It compares every read
// model with the events up to its watermark, and the units that are behind with the
// parked list.
func (s *scenario) compareRefused(documentsOf func(collection string) map[string]bson.Raw, parking *memoryParking) error {
	for name, fold := range folds {
		documents, sides := documentsOf(name), documentsOf(watermarksCollection)
		for _, history := range s.histories {
			id := history[0].AggregateID
			watermark, _ := watermarkOf(either(documents[id], sides[name+"/"+id]))
			applied := 0
			for applied < len(history) && history[applied].EventID <= watermark {
				applied++
			}
			if _, parked := parking.parked[unitOf(name, id)]; !parked && applied < len(history) {
				return fmt.Errorf("%s of %s has watermark %d and is not parked", name, id, watermark)
			}
			if err := fold(history[:applied]).compare(documents[id], sides[name+"/"+id]); err != nil {
				return fmt.Errorf("%s of %s: %w", name, id, err)
			}
		}
	}
	return nil
}

// either returns the document if there is one.
func either(document, side bson.Raw) bson.Raw {
	if document != nil {
		return document
	}
	return side
}

// compare compares a read model, or the side watermark if there is none, with e.
func (e expected) compare(document, side bson.Raw) error {
	exists := document != nil
	document = either(document, side)
	if exists != (e.document != nil) {
		return fmt.Errorf("got %s, want %v", document, e.document)
	}
	if watermark, ok := watermarkOf(document); watermark != e.watermark || !ok && e.watermark > 0 {
		return fmt.Errorf("watermark %d, not %d: %s", watermark, e.watermark, document)
	}
	if !exists {
		return nil
	}
	var got bson.M
	decoder := bson.NewDecoder(bson.NewDocumentReader(bytes.NewReader(document)))
	decoder.DefaultDocumentM()
	if err := decoder.Decode(&got); err != nil {
		return err
	}
	delete(got, fieldID)
	delete(got, model.FieldLastEventID)
	delete(got, model.FieldLastUpdatedAt)
	if !reflect.DeepEqual(got, e.document) {
		return fmt.Errorf("got %v\nwant %v", got, e.document)
	}
	return nil
}
