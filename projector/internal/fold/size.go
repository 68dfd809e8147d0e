package fold

import (
	"errors"
	"strconv"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// MaxState is how large a document and a value may become: MongoDB stores 16 MiB. The
// limit holds after each event, so a fold cannot exhaust the memory, and the event that
// exceeds it does not depend on the batches. A document that contains itself, for example,
// doubles with each event.
const MaxState = 16 << 20

// ErrOutgrown says that a document exceeds [MaxState].
var ErrOutgrown = errors.New("the document is larger than the 16 MiB that MongoDB stores")

// ElementOverhead is the largest size of an array's element beside its value: the type,
// the index and a zero byte.
const ElementOverhead = 12

// Outgrown reports whether the document's own fields are larger than [MaxState].
func (d *Document) Outgrown() bool {
	most := len(d.Base) + d.TouchedSize() + len(d.Touched)*len(EmptyDocument)
	return most > MaxState && d.Size() > MaxState
}

// TouchedSize is about the size of the fields that were touched.
func (d *Document) TouchedSize() int {
	size := 0
	for i := range d.Touched {
		t := &d.Touched[i]
		size += 2 + len(t.name) + len(t.Value.Value) + t.PushedSize
	}
	return size
}

// Size returns the size of the document's own fields in bytes.
func (d *Document) Size() int {
	size := len(EmptyDocument)
	for name, v := range ReadFields(d.Base).All() {
		if !model.EngineOwned(string(name)) && d.IndexTouched(string(name)) < 0 {
			size += 2 + len(name) + len(v.Value)
		}
	}
	for i := range d.Touched {
		t := &d.Touched[i]
		if !Present(t.Value) {
			continue
		}
		size += 2 + len(t.name) + len(t.Value.Value)
		if len(t.Pushed) > 0 {
			n := CountFields(t.Value.Value)
			for j, v := range t.Pushed {
				size += 2 + len(strconv.Itoa(n+j)) + len(v.Value)
			}
		}
	}
	return size
}
