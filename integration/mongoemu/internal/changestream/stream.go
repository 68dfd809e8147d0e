package changestream

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
)

// Lookup returns the current version of a document by its key, or nil if the document no
// longer exists.
type Lookup func(db, coll string, uuid [16]byte, key []byte) []byte

// MaxEvent is the size limit of an event, in bytes: the limit of a document plus the
// server's allowance for the other fields.
const MaxEvent = 16<<20 + 16<<10

// Stream is an open change stream. Only one goroutine at a time may use it.
type Stream struct {
	log    *oplog.Log
	spec   Spec
	stages []stage
	vars   expr.Vars
	lookup Lookup
	// shown contains the operations that the first filter lets through; nil for all.
	shown      map[string]bool
	position   uint64
	after      Token // events up to here were returned before
	token      Token // the post-batch token
	chunk      [256]*oplog.Entry
	have, next int // indexes into chunk
	ended      bool
}

// Open opens a stream after the resume token of spec, at its start time, or after the
// newest entry of the log.
func Open(log *oplog.Log, spec Spec, stages []bsonraw.Value, vars expr.Vars, lookup Lookup) (*Stream, error) {
	compiled, err := compileStages(stages, vars)
	if err != nil {
		return nil, err
	}
	s := &Stream{log: log, spec: spec, stages: compiled, vars: vars, lookup: lookup}
	s.shown, err = shownOperations(compiled, vars)
	if err != nil {
		return nil, err
	}
	return s, s.seek()
}

func (s *Stream) seek() error {
	switch {
	case s.spec.Resume != nil:
		return s.resume(*s.spec.Resume)
	case s.spec.StartAt != nil:
		return s.resume(watermark(*s.spec.StartAt))
	}
	s.position = s.log.End()
	newest := s.log.Newest()
	s.after = watermark(bson.Timestamp{T: newest.T, I: newest.I + 1})
	s.token = s.after
	return nil
}

func (s *Stream) resume(t Token) error {
	position, err := s.log.Seek(t.TS)
	if err != nil {
		return lost()
	}
	s.position, s.after, s.token = position, t, t
	if !t.Event {
		return nil
	}
	for p := position; ; p++ {
		n, err := s.log.Read(p, s.chunk[:1])
		switch {
		case err != nil:
			return lost()
		case n == 0 || s.chunk[0].TS != t.TS:
			return notFound(t)
		case s.chunk[0].Index == t.Index:
			if s.chunk[0].UUID != t.UUID {
				return notFound(t)
			}
			return nil
		}
	}
}

func lost() error {
	return mongoerr.New(mongoerr.ChangeStreamHistoryLost,
		"PlanExecutor error during aggregation :: caused by :: Resume of change stream was not possible, as the resume point may no longer be in the oplog.")
}

func notFound(t Token) error {
	return mongoerr.New(mongoerr.ChangeStreamFatalError,
		"cannot resume stream; the resume token was not found. %s", bsonraw.FormatDocument(t.Document()))
}

// shownOperations evaluates the first filter's conditions on operationType for every
// operation. Events of operations that it excludes need not be built. It returns nil if
// there are no such conditions.
func shownOperations(stages []stage, vars expr.Vars) (map[string]bool, error) {
	if len(stages) == 0 || stages[0].match == nil {
		return nil, nil
	}
	var nodes []query.Node
	for _, n := range stages[0].match.Root().Children {
		switch n := n.(type) {
		case *query.Compare:
			if n.Path.String() == "operationType" {
				nodes = append(nodes, n)
			}
		case *query.In:
			if n.Path.String() == "operationType" {
				nodes = append(nodes, n)
			}
		}
	}
	if len(nodes) == 0 {
		return nil, nil
	}
	m := query.Conjunction(nodes, vars)
	shown := map[string]bool{}
	names := []string{invalidateName}
	for _, n := range operationNames {
		names = append(names, n)
	}
	for _, n := range names {
		ok, err := m.Match(bsonraw.NewBuilder(32).String("operationType", n).Bytes())
		if err != nil {
			return nil, err
		}
		shown[n] = ok
	}
	return shown, nil
}

// Token returns the post-batch token. A stream that resumes there neither loses nor
// repeats an event.
func (s *Stream) Token() []byte { return s.token.Document() }

// Ended reports whether the stream has returned its last event.
func (s *Stream) Ended() bool { return s.ended }

// Wait blocks until the log contains an entry that the stream has not read. It returns
// false if ctx ends or stop is closed first.
func (s *Stream) Wait(ctx context.Context, stop <-chan struct{}) bool {
	return s.next < s.have || s.log.Wait(ctx, stop, s.position)
}

// Next reads up to the end of the log, or until the batch has maxDocs events (0: no
// limit) or about maxBytes.
func (s *Stream) Next(maxDocs, maxBytes int) (events [][]byte, err error) {
	size := 0
	for !s.ended {
		if s.next == s.have {
			if s.have, err = s.log.Read(s.position, s.chunk[:]); err != nil {
				if errors.Is(err, oplog.ErrLost) {
					err = lost()
				}
				return nil, err
			}
			s.next = 0
			if s.have == 0 {
				return events, nil
			}
		}
		first, before := len(events), s.token
		e := s.chunk[s.next]
		if events, err = s.events(events, e); err != nil {
			return nil, err
		}
		for _, ev := range events[first:] {
			size += len(ev)
		}
		if first > 0 && size > maxBytes {
			s.token, s.ended = before, false // the next batch reads this entry again
			return events[:first], nil
		}
		s.next++
		s.position++
		if w := watermark(e.TS); w.Compare(s.token) > 0 {
			s.token = w
		}
		if maxDocs > 0 && len(events) >= maxDocs || size >= maxBytes {
			return events, nil
		}
	}
	return events, nil
}

// events appends the events of an entry.
func (s *Stream) events(out [][]byte, e *oplog.Entry) ([][]byte, error) {
	if !s.sees(e) {
		return out, nil
	}
	var err error
	if t := tokenOf(e, false); t.Compare(s.after) > 0 && s.shows(operationNames[e.Kind]) {
		token := t.Document()
		if out, err = s.emit(out, build(e, token, s.full(e)), token, t); err != nil {
			return nil, err
		}
	}
	if !s.invalidates(e) {
		return out, nil
	}
	t := tokenOf(e, true)
	if t.Compare(s.after) <= 0 {
		return out, nil
	}
	s.ended = true
	token := t.Document()
	if s.shows(invalidateName) {
		out, err = s.emit(out, buildInvalidate(e, token), token, t)
	}
	s.token = t
	return out, err
}

func (s *Stream) shows(operation string) bool { return s.shown == nil || s.shown[operation] }

// sees reports whether the stream watches the namespace of an entry.
func (s *Stream) sees(e *oplog.Entry) bool {
	switch {
	case e.Kind == oplog.Noop:
		return false
	case s.spec.DB == "":
		return !internalDatabase(e.DB) && !strings.HasPrefix(e.Coll, "system.")
	case e.Kind == oplog.DropDatabase:
		return e.DB == s.spec.DB
	case s.spec.Coll == "":
		return (e.DB == s.spec.DB || e.Kind == oplog.Rename && e.ToDB == s.spec.DB) && !strings.HasPrefix(e.Coll, "system.")
	}
	return e.Coll == s.spec.Coll && e.DB == s.spec.DB ||
		e.Kind == oplog.Rename && e.ToDB == s.spec.DB && e.ToColl == s.spec.Coll
}

func internalDatabase(db string) bool {
	return db == "admin" || db == "config" || db == "local"
}

// invalidates reports whether an entry that the stream sees ends the stream.
func (s *Stream) invalidates(e *oplog.Entry) bool {
	switch {
	case s.spec.DB == "":
		return false
	case s.spec.Coll == "":
		return e.Kind == oplog.DropDatabase
	}
	return e.Kind == oplog.Drop || e.Kind == oplog.Rename || e.Kind == oplog.DropDatabase
}

func (s *Stream) full(e *oplog.Entry) bsonraw.Value {
	if !s.spec.UpdateLookup || e.Kind != oplog.Update {
		return bsonraw.Missing
	}
	if doc := s.lookup(e.DB, e.Coll, e.UUID, e.Key); doc != nil {
		return bsonraw.DocumentValue(doc)
	}
	return bsonraw.Null
}

// emit passes an event through the stages and appends the result. A stage must not change
// the token.
func (s *Stream) emit(out [][]byte, event, token []byte, t Token) ([][]byte, error) {
	for _, st := range s.stages {
		if st.match != nil {
			ok, err := st.match.Match(event)
			if err != nil {
				return nil, err
			}
			if !ok {
				return out, nil
			}
			continue
		}
		next, err := st.transform.Apply(event, s.vars)
		if err != nil {
			return nil, err
		}
		event = next
	}
	if id, _ := bsonraw.Lookup(event, "_id"); id.Type != bsoncore.TypeEmbeddedDocument || !bytes.Equal(id.Data, token) {
		return nil, mongoerr.New(mongoerr.ChangeStreamFatalError,
			"Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. Modifying the _id field of an event makes it impossible to resume the stream from that point. Only transformations that retain the unmodified _id field are allowed. Expected: { _id: %s } but found: { _id: %s }",
			bsonraw.FormatDocument(token), bsonraw.Format(id))
	}
	if len(event) > MaxEvent {
		return nil, mongoerr.New(mongoerr.BSONObjectTooLarge, "BSONObj size: %d is invalid. Size must be between 0 and %d(16MB)", len(event), MaxEvent)
	}
	s.token = t
	return append(out, event), nil
}
