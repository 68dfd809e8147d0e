package memory

import (
	"errors"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// ErrCrashed is returned after a simulated crash.
var ErrCrashed = errors.New("the process has crashed after a write, as the test asks for")

// Stores are the stores of one pipeline. Make them with [New]. They are safe for
// concurrent use.
type Stores struct {
	mu sync.Mutex
	// documents are whole read model documents by collection and aggregate.
	documents map[place]bson.Raw
	// sides are the watermarks of units without a document.
	sides map[key]int64
	// parts are those of views, with the watermarks of their units.
	parts   map[key]part
	markers map[key]model.Marker
	// events are in the order of the event store's index.
	events []*event.Event
	reader *event.Reader

	crashing, crashed bool
}

// place is the collection and the id of a document.
type place struct{ collection, aggregateID string }

// key identifies a unit, like the _id of its watermark and of its marker.
type key struct {
	projection, aggregateID string
	// later is 0 for the first generation.
	later int64
}

func keyOf(u *model.Unit) key { return key{u.Projection, u.AggregateID, u.Later()} }

// New makes empty stores.
func New() *Stores {
	reader, err := event.NewReader(event.DefaultFields())
	if err != nil {
		panic(err) // The default field names are valid.
	}
	return &Stores{documents: map[place]bson.Raw{}, sides: map[key]int64{}, parts: map[key]part{}, markers: map[key]model.Marker{}, reader: reader}
}

// CrashAfterWrites makes the process crash after each write that changes data. So of the
// writes of one call, only the first one that changes data is applied.
func (s *Stores) CrashAfterWrites() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crashing = true
}

// Crashed reports whether the process has crashed since the last [Stores.Restart].
func (s *Stores) Crashed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crashed
}

// Restart simulates the restart of the process, after which the stores answer again.
func (s *Stores) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crashed = false
}

// open begins a call and locks. The caller must unlock.
func (s *Stores) open() error {
	s.mu.Lock()
	if s.crashed {
		return ErrCrashed
	}
	return nil
}

// changed is called after a write that has changed data. It returns [ErrCrashed] if the
// process crashes now.
func (s *Stores) changed() error {
	if !s.crashing {
		return nil
	}
	s.crashed = true
	return ErrCrashed
}
