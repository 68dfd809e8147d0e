package projection

import (
	"cel.dev/cel-go/common/types/ref"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// document is a read model while events are folded into it, as expressions see it.
type document struct {
	fold.Document
	// meter charges the event that is folded. large are large values of the state before it.
	meter *meter
	large children
}

func newDocument(loaded bson.Raw) *document { return &document{Document: *fold.NewDocument(loaded)} }

// find returns a field of the state as a CEL value.
func (d *document) find(name string) (ref.Val, bool) {
	if model.EngineOwned(name) {
		return nil, false
	}
	if v := d.large.find(name); v != nil {
		return v, true
	}
	// Where the field is depends on the batches of events, so the charge must not.
	d.meter.spend(fieldWork+d.passing(), 0)
	if i := d.IndexTouched(name); i >= 0 {
		t := &d.Touched[i]
		switch {
		case !fold.Present(t.Value):
			return nil, false
		case len(t.Pushed) > 0:
			a := &arrayValue{raw: t.Value, more: t.Pushed, meter: d.meter}
			size := len(t.Value.Value)
			if size <= smallText {
				size = a.bytes()
			}
			return d.large.keep(name, size, a), true
		}
		return d.large.keep(name, len(t.Value.Value), celValue(t.Value, d.meter)), true
	}
	v, ok := fold.Lookup(d.Base, name)
	if !ok {
		return nil, false
	}
	return d.large.keep(name, len(v.Value), celValue(v, d.meter)), true
}

// entries visits the fields of the state in the order of their names. Their order in the
// document depends on the batches of events.
func (d *document) entries(visit func(name string, v ref.Val) bool) {
	n := d.FieldCount()
	d.meter.spend(n*2*fieldWork+d.passing(), n*elementMemory)
	for _, f := range d.ByName() {
		if !visit(f.Name, celValue(f.Value, d.meter)) {
			return
		}
	}
}

func (d *document) count() int {
	n := d.FieldCount()
	d.meter.spend(n*fieldWork+d.passing(), 0)
	return n
}

// passing is the work to read past all fields, beside the [fieldWork] of each.
func (d *document) passing() int { return d.Scan() / bytesPerWork }
