package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// writer writes events as applications do: one or several aggregates in a transaction, hot
// aggregates, aggregates that end and begin again, and some events that no projection can
// apply.
type writer struct {
	world  *World
	random *rand.Rand
	// prefix begins the ids of the aggregates that only this writer writes.
	prefix string
	begun  time.Time
	// newest is the last event id of each aggregate, and open says whether it is open.
	newest map[string]int64
	open   map[string]bool
	// poisoned are the aggregates with a poison event.
	poisoned map[string]bool

	mu sync.Mutex
	// written are the acknowledged events, in order.
	written []commit
	// unreadable are the events without an id.
	unreadable []commit
}

// commit is an event that MongoDB has acknowledged. Its entry in the oplog is not later than
// at, and its timestamp and _id not earlier than began.
type commit struct {
	aggregate string
	event     int64
	began     time.Time
	at        bson.Timestamp
	// late says that it was stored after the next event of its aggregate.
	late bool
}

// messageID is the id of the event's message.
func (c *commit) messageID() string { return fmt.Sprintf("%s/%d", c.aggregate, c.event) }

func newWriter(w *World, number int) *writer {
	return &writer{
		world: w, random: rand.New(rand.NewPCG(w.plan.Seed, 0x777269746572+uint64(number))),
		prefix: string(rune('a' + number)), newest: make(map[string]int64), open: make(map[string]bool), poisoned: make(map[string]bool),
	}
}

// run writes until the plan's length is over.
func (w *writer) run(ctx context.Context) {
	p := w.world.plan
	w.begun = time.Now()
	end := w.begun.Add(p.Length)
	// The special events are spread over the history.
	special := make(map[int]string)
	archives := &archiver{writer: w, random: rand.New(rand.NewPCG(p.Seed, 0x61726368697665+uint64(w.prefix[0])))}
	defer archives.deleting.Wait()
	steps := max(int(p.Length/p.Pause), 1)
	for _, of := range []struct {
		kind  string
		count int
	}{{"Poison", p.Poison}, {"unreadable", p.Unreadable}, {"large", p.Large}, {"late", p.Late}} {
		for range of.count {
			special[w.random.IntN(steps)] = of.kind
		}
	}
	for range p.Archives {
		// From a source of its own, so that the other special events stay where they are.
		if step := archives.random.IntN(steps); special[step] == "" {
			special[step] = snapshot
		}
	}
	for step := 0; time.Now().Before(end); step++ {
		switch kind := special[step]; kind {
		case "":
			w.write(ctx, w.random.IntN(10) == 0, "")
		case "late":
			w.writeLate(ctx)
		case snapshot:
			archives.archive(ctx)
		default:
			w.write(ctx, false, kind)
		}
		if w.random.IntN(20) == 0 {
			// A burst.
			for range w.random.IntN(30) {
				w.write(ctx, false, "")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(w.random.ExpFloat64() * float64(p.Pause))):
		}
	}
}

// aggregate draws an aggregate whose events are not deleted; the low numbers are hot.
func (w *writer) aggregate() string {
	n := w.world.plan.Aggregates
	for {
		number := int(float64(n) * w.random.Float64() * w.random.Float64())
		if w.world.plan.Brief {
			number = int(time.Since(w.begun)/briefly) + w.random.IntN(5)
		}
		id := fmt.Sprintf("%s%d", w.prefix, number)
		if !w.world.isDeleted(id) {
			return id
		}
	}
}

// briefly is the time after which a new aggregate replaces the oldest one. A writer of brief
// aggregates has five at a time.
const briefly = 3 * time.Second

// closing is after how many events an aggregate ends, on average.
func (p *Plan) closing() int {
	if p.Brief {
		return 4
	}
	return 40
}

// aggregateType returns the type of an aggregate.
func (w *writer) aggregateType(id string) string {
	if w.world.plan.Wallets && strings.ContainsAny(id[len(id)-1:], "37") {
		return wallet
	}
	return "Account"
}

// write stores the next event of an aggregate, or of some in one transaction.
func (w *writer) write(ctx context.Context, several bool, kind string) {
	count := 1
	if several {
		count = 2 + w.random.IntN(3)
	}
	var documents []any
	var commits []commit
	for range count {
		id := w.aggregate()
		if kind == "unreadable" {
			id := fmt.Sprintf("broken-%s%d", w.prefix, len(w.unreadable)+1)
			documents = append(documents, bson.M{"aggregateId": id, "eventType": "Added", "payload": bson.M{"amount": 1, "name": w.world.personOf(id)}})
			began := time.Now()
			w.unreadable = append(w.unreadable, commit{aggregate: id, began: began, at: w.insert(ctx, documents)})
			return
		}
		if kind == "Poison" && !w.open[id] {
			kind = ""
		}
		document, c := w.event(id, kind)
		documents, commits = append(documents, document), append(commits, c)
	}
	w.store(ctx, documents, commits)
}

// writeLate stores the next event of an aggregate after the one that follows it.
func (w *writer) writeLate(ctx context.Context) {
	id := w.aggregate()
	late, first := w.event(id, "")
	next, second := w.event(id, "")
	w.store(ctx, []any{next}, []commit{second})
	wait(ctx, time.Duration(w.random.Int64N(int64(20*time.Second))))
	first.began, first.late = time.Now(), true
	w.store(ctx, []any{late}, []commit{first})
}

// event makes the next event of an aggregate.
func (w *writer) event(id, kind string) (any, commit) {
	number := w.world.plan.first()
	if newest, ok := w.newest[id]; ok {
		number = newest + 1
	}
	w.newest[id] = number
	document := bson.D{
		{Key: "aggregateId", Value: id}, {Key: "aggregateType", Value: w.aggregateType(id)}, {Key: "eventId", Value: number},
		{Key: "eventType", Value: w.eventType(id, kind)}, {Key: "timestamp", Value: time.Now()},
	}
	payload := bson.D{{Key: "amount", Value: w.random.Int64N(1000)}}
	var name any
	switch kind {
	case "Poison":
		payload = bson.D{{Key: "amount", Value: "a text"}}
	case "large":
		// Larger than a message of the topic, or than all that fit into one read.
		payload = append(payload, bson.E{Key: "filler", Value: strings.Repeat("x", []int{300 << 10, 300 << 10, 5 << 20}[w.random.IntN(3)])})
	}
	if !w.world.isErased(id) {
		name = w.world.personOf(id)
	}
	return append(document, bson.E{Key: "payload", Value: append(payload, bson.E{Key: "name", Value: name})}), commit{aggregate: id, event: number, began: time.Now()}
}

// store stores events in one transaction.
func (w *writer) store(ctx context.Context, documents []any, commits []commit) {
	at := w.insert(ctx, documents)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range commits {
		c.at = at
		w.written = append(w.written, c)
	}
}

// last returns the event that was acknowledged last.
func (w *writer) last() (commit, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.written) == 0 {
		return commit{}, false
	}
	return w.written[len(w.written)-1], true
}

// eventType returns the type of the aggregate's next event.
func (w *writer) eventType(id, kind string) string {
	switch {
	case !w.open[id]:
		w.open[id] = true
		return "Opened"
	case kind == "Poison":
		w.poisoned[id] = true
		return "Poison"
	case kind == snapshot:
		return snapshot
	case w.random.IntN(w.world.plan.closing()) == 0:
		w.open[id] = false
		return "Closed"
	}
	return "Added"
}

// insert stores documents in one transaction, and repeats it until it is acknowledged.
func (w *writer) insert(ctx context.Context, documents []any) bson.Timestamp {
	for {
		at, err := w.attempt(ctx, documents)
		if err == nil || mongo.IsDuplicateKeyError(err) || ctx.Err() != nil {
			return at
		}
		wait(ctx, 500*time.Millisecond)
	}
}

func (w *writer) attempt(ctx context.Context, documents []any) (bson.Timestamp, error) {
	w.world.writing.RLock()
	defer w.world.writing.RUnlock()
	session, err := w.world.mongo.client.StartSession()
	if err != nil {
		return bson.Timestamp{}, err
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	insert := func(ctx context.Context) (any, error) {
		_, err := w.world.events().InsertMany(ctx, documents)
		return nil, err
	}
	if len(documents) > 1 {
		_, err = session.WithTransaction(ctx, insert)
	} else {
		_, err = insert(mongo.NewSessionContext(ctx, session))
	}
	at := bson.Timestamp{T: 1 << 31}
	if stamp := session.OperationTime(); stamp != nil {
		at = *stamp
	}
	return at, err
}
