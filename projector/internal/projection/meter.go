package projection

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
)

// The limits of one event in one projection. They hold for all expressions and operators of
// its handler together, and depend only on the event and the document, so every process
// and every replay reaches the same result.
const (
	// workLimit bounds the work that CEL does not count. A unit takes about a nanosecond.
	workLimit = 128 << 20
	// memoryLimit bounds the bytes of all values that are built.
	memoryLimit = 64 << 20
)

// An event that exceeds one of these is large. Only one large event of the process is
// evaluated at a time, so that many of them exhaust neither the memory nor the processors.
const (
	largeWork   = 8 << 20
	largeMemory = 1 << 20
)

// Units of work.
const (
	// fieldWork is the work to go from one element of a document to the next.
	fieldWork = 16
	// bytesPerWork is how many bytes are compared or copied in a unit.
	bytesPerWork = 8
	// decimalWork is the work to compare or add a Decimal128.
	decimalWork = 500
)

var (
	errWork = fmt.Errorf("evaluation took too long (the expressions of an event may read, search and compare about %d MiB; look for a search or a loop within a loop, or keep large lists and texts out of the event)", workLimit>>20)
	// errMemory names the sum of all values, because an expression may need several.
	errMemory = fmt.Errorf("evaluation needs too much memory (the expressions of an event may build %d MiB; look for texts that are joined, replaced or split, and for values that are copied into many elements)", memoryLimit>>20)
	// ErrBusy ends a fold that had no time left. It does not mean that the event is at fault.
	ErrBusy = errors.New("no time was left for the evaluation in this attempt, because others took long")
)

// large has a token while a large event is evaluated.
var large = make(chan struct{}, 1)

// meter charges what CEL's costs do not show, before it is spent: the bytes that are read
// between two fields, and the results of functions with a [bound]. A charge above a limit
// panics with a [limitError]; CEL recovers it, and [Projection.handle] outside of CEL. A nil
// meter charges nothing.
type meter struct {
	// Val is nil. The meter is an argument of calls, and no value of an expression.
	ref.Val
	work, memory int
	// free is set while nothing is charged.
	free bool
	// exceeded is the limit that was exceeded.
	exceeded error
	// done ends the wait for [large], and large is set while the event holds it.
	done  <-chan struct{}
	large bool
}

// begin begins an event of some size.
func (m *meter) begin(ctx context.Context, size int) {
	m.done = ctx.Done()
	if size > largeMemory {
		m.check()
	}
}

type limitError struct{ error }

// spend charges units of work and bytes of memory.
func (m *meter) spend(work, memory int) {
	if m == nil {
		return
	}
	m.work += work
	m.memory += memory
	if m.work > largeWork || m.memory > largeMemory {
		m.check()
	}
}

// check ends the evaluation if it exceeds a limit, and waits for its turn if it is large.
func (m *meter) check() {
	switch {
	case m.free:
		return
	case m.exceeded != nil:
	case m.work > workLimit:
		m.exceeded = errWork
	case m.memory > memoryLimit:
		m.exceeded = errMemory
	case !m.large:
		select {
		case large <- struct{}{}:
			m.large = true
		case <-m.done:
			m.exceeded = ErrBusy
		}
	}
	if m.exceeded != nil {
		panic(limitError{m.exceeded})
	}
}

// refuse ends the evaluation.
func (m *meter) refuse(err error) {
	if m != nil && !m.free {
		m.exceeded = err
		panic(limitError{err})
	}
}

// end ends the event. The meter is then ready for the next one.
func (m *meter) end() {
	if m.large {
		<-large
	}
	*m = meter{}
}

// lookup finds a field in a document.
func (m *meter) lookup(doc []byte, name string) (bson.RawValue, bool) {
	return (&finder{doc: doc, meter: m}).find(name)
}

// count counts the elements of a document or array.
func (m *meter) count(doc []byte) int {
	n := 0
	for range m.fields(doc).all() {
		n++
	}
	return n
}

// meteredFields is a [fold.FieldReader] that charges each element.
type meteredFields struct {
	fold.FieldReader
	meter *meter
}

// fields reads a document at the expense of the meter.
func (m *meter) fields(doc []byte) meteredFields { return meteredFields{fold.ReadFields(doc), m} }

func (r *meteredFields) next() (name []byte, value bson.RawValue, ok bool) {
	if name, value, ok = r.Next(); ok {
		r.meter.spend(passing(name, value), 0)
	}
	return name, value, ok
}

// all visits the remaining elements.
func (r meteredFields) all() iter.Seq2[[]byte, bson.RawValue] {
	return func(yield func([]byte, bson.RawValue) bool) {
		for {
			name, value, ok := r.next()
			if !ok || !yield(name, value) {
				return
			}
		}
	}
}

// passing is the work to read past one element.
func passing(name []byte, v bson.RawValue) int {
	return fieldWork + fold.ScannedBytes(len(name), v)/bytesPerWork
}

// hashed charges a lookup of a key in a map of Go.
func (m *meter) hashed(key ref.Val) { m.spend(textSize(key)/bytesPerWork, 0) }

// compared charges the comparison of two texts.
func (m *meter) compared(a, b int) { m.spend(min(a, b)/bytesPerWork, 0) }

// compareNumbers charges the comparison of two numbers, and compares them.
func (m *meter) compareNumbers(a, b fold.Number) int {
	m.spend(comparisonWork(a, b), 0)
	return fold.CompareNumbers(a, b)
}

// comparisonWork is the work to compare two numbers if one is a decimal: the exact fraction of
// a small double has up to a thousand digits.
func comparisonWork(a, b fold.Number) int {
	const perBit = 16
	if a.Kind != fold.DecimalNumber && b.Kind != fold.DecimalNumber {
		return 0
	}
	_, exponent := math.Frexp(a.Double + b.Double) // one of them is 0
	return decimalWork + max(exponent, -exponent)*perBit
}

// varMeter is the name of the meter among the variables. No expression can contain it.
const varMeter = "@meter"

// meterOf returns the meter of an evaluation.
func meterOf(frame *interpreter.ExecutionFrame) *meter {
	v, _ := frame.ResolveName(varMeter)
	m, _ := v.(*meter)
	return m
}

// FoldTime bounds the folding of a round, with the wait for large events of others. It is well
// below the 10 s of a call, so that the round can still write.
const FoldTime = 4 * time.Second

// finder looks up fields in a document. If they are looked up in the document's order, one
// pass over the document is enough.
type finder struct {
	doc   []byte
	rest  fold.FieldReader
	meter *meter
}

func (f *finder) find(name string) (bson.RawValue, bool) {
	key, value, ok := f.rest.Next()
	work := passing(key, value)
	if !ok || string(key) != name {
		f.rest = fold.ReadFields(f.doc)
		for {
			key, value, ok = f.rest.Next()
			work += passing(key, value)
			if !ok || string(key) == name {
				break
			}
		}
	}
	f.meter.spend(work, 0)
	return value, ok
}
