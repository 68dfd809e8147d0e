package projection

import (
	"errors"
	"strconv"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// maxState is how large a document and a value may become: MongoDB stores 16 MiB. The
// limit holds after each event, so a fold cannot exhaust the memory, and the event that
// exceeds it does not depend on the batches. A document that contains itself, for example,
// doubles with each event.
const maxState = 16 << 20

var errOutgrown = errors.New("the document is larger than the 16 MiB that MongoDB stores")

// elementOverhead is the largest size of an array's element beside its value: the type,
// the index and a zero byte.
const elementOverhead = 12

// outgrown reports whether the document's own fields are larger than [maxState].
func (d *document) outgrown() bool {
	most := len(d.base) + d.touchedSize() + len(d.touched)*len(emptyDocument)
	return most > maxState && d.size() > maxState
}

// touchedSize is about the size of the fields that were touched.
func (d *document) touchedSize() int {
	size := 0
	for i := range d.touched {
		t := &d.touched[i]
		size += 2 + len(t.name) + len(t.value.Value) + t.pushedSize
	}
	return size
}

// size returns the size of the document's own fields in bytes.
func (d *document) size() int {
	size := len(emptyDocument)
	for name, v := range readFields(d.base).all() {
		if !model.EngineOwned(string(name)) && d.indexTouched(string(name)) < 0 {
			size += 2 + len(name) + len(v.Value)
		}
	}
	for i := range d.touched {
		t := &d.touched[i]
		if !present(t.value) {
			continue
		}
		size += 2 + len(t.name) + len(t.value.Value)
		if len(t.pushed) > 0 {
			n := countFields(t.value.Value)
			for j, v := range t.pushed {
				size += 2 + len(strconv.Itoa(n+j)) + len(v.Value)
			}
		}
	}
	return size
}
