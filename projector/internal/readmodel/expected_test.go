package readmodel

import (
	"fmt"
	"reflect"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/project"
)

// expected is what a projection must come to.
type expected struct {
	document  map[string]any
	watermark int64
	parked    int64
}

// foldOrders is the projection orders once more, written by hand.
func foldOrders(history []*event.Event) expected {
	var e expected
	for _, ev := range history {
		sku := ev.Payload.Document().Lookup("sku").StringValue()
		quantity := ev.Payload.Document().Lookup("quantity").Int64()
		d := e.document
		switch ev.EventType {
		case "Created", "ItemAdded":
			if d == nil {
				d = map[string]any{}
				e.document = d
			}
		}
		number := func(key string) int64 { n, _ := d[key].(int64); return n }
		skus, _ := d["skus"].([]any)
		switch ev.EventType {
		case "Created":
			d["status"], d["customer"], d["address"] = "new", "c"+ev.AggregateID, map[string]any{"zip": "z" + sku}
			d["created"] = number("created") + 1
		case "ItemAdded":
			d["items"] = number("items") + quantity
			total, _ := d["totals"].(map[string]any)
			before, _ := total["quantity"].(int64)
			d["totals"] = map[string]any{"quantity": before + quantity}
			lines, _ := d["lines"].([]any)
			d["lines"] = append(lines, map[string]any{"sku": sku, "quantity": quantity})
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
			kept, has := []any{}, false
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
				e.document = map[string]any{}
			}
		}
		switch ev.EventType {
		case "ItemAdded":
			n, _ := e.document["count"].(int64)
			ids, _ := e.document["ids"].([]any)
			e.document["count"], e.document["ids"] = n+1, append(ids, ev.EventID)
		case "Cancelled":
			e.document["cancelled"] = ev.EventID
		}
	}
	return e
}

// totals is the state of the projection in Go: it comes and goes with every second
// event of a kind.
type totals struct {
	Events int64   `bson:"events"`
	IDs    []int64 `bson:"ids"`
}

func applyTotals(state project.State, ev *event.Event) (project.State, error) {
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
				e.document = map[string]any{"events": int64(0), "ids": []any(nil)}
			}
			e.document["events"] = e.document["events"].(int64) + 1
			e.document["ids"] = append(e.document["ids"].([]any), ev.EventID)
		}
	}
	return e
}

// compare holds every read model and watermark against the expected.
func (s *scenario) compare(documentsOf func(collection string) map[string]bson.Raw, lot *parkingLot) error {
	for name, fold := range map[string]func([]*event.Event) expected{"orders": foldOrders, "journal": foldJournal, "totals": foldTotals} {
		documents, sides := documentsOf(name), documentsOf(watermarksCollection)
		for _, history := range s.histories {
			id := history[0].AggregateID
			want := fold(history)
			unit := project.Unit{Projection: name, Collection: name, AggregateID: id, Deletes: name != "journal"}
			if at := lot.parked[unit]; at != want.parked {
				return fmt.Errorf("%s of %s is parked at %d, not at %d", name, id, at, want.parked)
			}
			document, exists := documents[id]
			if !exists {
				document = sides[name+"/"+id]
			}
			if exists != (want.document != nil) {
				return fmt.Errorf("%s of %s: got %s, want %v", name, id, document, want.document)
			}
			if watermark, ok := watermarkOf(document); watermark != want.watermark || !ok && want.watermark > 0 {
				return fmt.Errorf("%s of %s has watermark %d, not %d: %s", name, id, watermark, want.watermark, document)
			}
			if exists {
				got := plain(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: document}).(map[string]any)
				delete(got, fieldID)
				delete(got, fieldLastEventID)
				delete(got, fieldLastUpdatedAt)
				if !reflect.DeepEqual(got, want.document) {
					return fmt.Errorf("%s of %s:\ngot  %v\nwant %v", name, id, got, want.document)
				}
			}
		}
	}
	return nil
}

// plain turns BSON into maps and slices.
func plain(v bson.RawValue) any {
	if document, ok := v.DocumentOK(); ok {
		m := map[string]any{}
		elements, err := document.Elements()
		if err != nil {
			panic(err)
		}
		for _, e := range elements {
			m[e.Key()] = plain(e.Value())
		}
		return m
	}
	if array, ok := v.ArrayOK(); ok {
		values, err := array.Values()
		if err != nil {
			panic(err)
		}
		a := []any{}
		for _, e := range values {
			a = append(a, plain(e))
		}
		return a
	}
	var value any
	if err := v.Unmarshal(&value); err != nil {
		panic(err)
	}
	return value
}
