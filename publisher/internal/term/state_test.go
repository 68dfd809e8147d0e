package term

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
)

// server is the MongoDB stand-in of this package's tests.
var server mongotest.Server

func TestMain(m *testing.M) { os.Exit(server.Run(m)) }

// checkpointDocument is the collection checkpoints of a database of its own, with one
// document and with faults.
type checkpointDocument struct {
	*mongotest.Collection
	tb    testing.TB
	mu    sync.Mutex
	fault func() error
	// delay is how long an update takes.
	delay time.Duration
	// frozen makes requests fail, as if the process was dead.
	frozen bool
}

func newCheckpointDocument(tb testing.TB) *checkpointDocument {
	tb.Helper()
	c := &checkpointDocument{tb: tb, Collection: server.Collection(checkpoint.Checkpoints(server.Database(tb)))}
	c.Before = c.before
	return c
}

func (c *checkpointDocument) freeze(frozen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = frozen
}

// slow makes updates take d from now on.
func (c *checkpointDocument) slow(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay = d
}

func (c *checkpointDocument) before(ctx context.Context, request string) error {
	c.mu.Lock()
	delay := c.delay
	c.mu.Unlock()
	if delay > 0 && request == mongotest.UpdateOne {
		if poll.Wait(ctx, delay) != nil {
			return ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.frozen:
		return errors.New("the process is dead")
	case c.fault != nil:
		return c.fault()
	}
	return nil
}

// field returns a field of the document, a subdocument as a map; nil if it has none of that
// name.
func (c *checkpointDocument) field(name string) any {
	value := c.Stored(c.tb, bson.D{})[name]
	if document, ok := value.(bson.D); ok {
		fields := bson.M{}
		for _, e := range document {
			fields[e.Key] = e.Value
		}
		return fields
	}
	return value
}

// quarantined is the collection quarantine of a database of its own.
type quarantined struct{ *mongotest.Collection }

func newQuarantined(tb testing.TB) quarantined {
	tb.Helper()
	return quarantined{server.Collection(server.Database(tb).Collection(quarantine.CollectionName))}
}

// ids returns the _ids of the documents in the quarantine.
func (q quarantined) ids() map[int]bool {
	found, err := q.Documents()
	if err != nil {
		panic(fmt.Errorf("read the quarantine: %w", err))
	}
	ids := map[int]bool{}
	for _, record := range found {
		ids[int(record.Lookup("_id", "document").AsInt64())] = true
	}
	return ids
}
