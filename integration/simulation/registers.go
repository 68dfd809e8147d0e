package simulation

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// versions are the fields that tell one state of a document from all its others, by
// collection of the state database. The processes agree by these documents: the publishers'
// checkpoint and lease, and the catalog of projections. The numbers order the states, the
// first one before the others: a write that does not raise them overwrites what it has not
// read.
var versions = map[string][]string{
	"checkpoints":   {"epoch", "holder", "revision"},
	"leader_leases": {"version", "holder"},
	"projections":   {"revision"},
}

// registers records the requests for these documents and their answers, as the network
// carries them. Each document must be a linearizable register: there must be one order of all
// requests, consistent with the time between request and answer, in which each answer is
// right and no write overwrites what it has not read. An acknowledged write that a failover
// loses, or a read of what was never written, has none.
type registers struct {
	mu sync.Mutex
	// requests are those of each document, in the order of their beginning.
	requests map[string][]*request
	// attempts are the writes that the driver may send again.
	attempts map[string]*request
	// unknown describes requests that the model does not know.
	unknown []string
}

// request is a request for one document.
type request struct {
	began time.Time
	// read says that the answer has the document, and nothing changes.
	read bool
	// insert, upsert and remove say what happens besides the effects. clear removes the
	// document if it is there.
	insert, upsert, remove, clear bool
	conditions                    []condition
	// more says that there are conditions on other fields.
	more    bool
	effects []effect

	answered time.Time
	// done says that a write was executed, and exists that the document prevented it. Without
	// an answer both are unknown.
	done, exists bool
	// found is the state that the answer has; nil if it has none.
	found *version
}

// version is a state of a document: the values of its version fields.
type version struct {
	exists bool
	values [3]value
}

// value is a value of a field; the zero value is that of a missing field.
type value struct {
	set    bool
	number int64
	text   string
}

// condition is what a filter demands of a version field: a value, at most a number, or that
// the field is missing.
type condition struct {
	field  int
	value  value
	atMost bool
}

// effect is what a write does to a version field: it sets it, removes it, or adds to it.
type effect struct {
	field int
	value value
	adds  bool
}

func newRegisters() *registers {
	return &registers{requests: make(map[string][]*request), attempts: make(map[string]*request)}
}

// tap returns what takes the bytes of a connection to MongoDB.
func (r *registers) tap(_, server string) (toServer, toClient io.Writer) {
	if server != mongodb && server != stores {
		return nil, nil
	}
	c := &conversation{registers: r, open: make(map[int32]*exchange)}
	return &messages{take: c.request}, &messages{take: c.answer}
}

// conversation is a connection to MongoDB.
type conversation struct {
	registers *registers
	// open are the requests without an answer by their ids.
	open map[int32]*exchange
}

// exchange is a request of a connection, and what takes its answer.
type exchange struct{ answer func(reply bson.Raw) }

// messages splits the bytes of one direction into messages.
type messages struct {
	take    func(header, payload []byte)
	pending []byte
}

// The layout of MongoDB's messages.
const (
	headerSize = 16
	opMsg      = 2013
)

// Write implements [io.Writer].
func (m *messages) Write(b []byte) (int, error) {
	m.pending = append(m.pending, b...)
	for len(m.pending) >= headerSize {
		size := int(binary.LittleEndian.Uint32(m.pending))
		if len(m.pending) < size {
			break
		}
		if binary.LittleEndian.Uint32(m.pending[12:]) == opMsg {
			m.take(m.pending[:headerSize], m.pending[headerSize+4:size])
		}
		m.pending = m.pending[:copy(m.pending, m.pending[size:])]
	}
	return len(b), nil
}

// sections returns the command of a message, and the documents that belong to it.
func sections(payload []byte) (command bson.Raw, documents []bson.Raw) {
	for len(payload) > 5 {
		kind, size := payload[0], int(binary.LittleEndian.Uint32(payload[1:]))
		section := payload[1 : 1+size]
		payload = payload[1+size:]
		if kind == 0 {
			command = section
			continue
		}
		_, list, _ := strings.Cut(string(section[4:]), "\x00")
		for len(list) > 4 {
			size := int(binary.LittleEndian.Uint32([]byte(list)))
			documents = append(documents, bson.Raw(list[:size]))
			list = list[size:]
		}
	}
	return command, documents
}

func (c *conversation) request(header, payload []byte) {
	// Most messages are about other collections: a look at the first element is enough.
	if len(payload) < 10 || payload[0] != 0 {
		return
	}
	first, err := bson.Raw(payload[1:]).IndexErr(0)
	if err != nil {
		return
	}
	collection, _ := first.Value().StringValueOK()
	if versions[collection] == nil {
		return
	}
	command, documents := sections(slices.Clone(payload))
	if database, _ := command.Lookup("$db").StringValueOK(); database != stateDatabase {
		return
	}
	c.registers.mu.Lock()
	defer c.registers.mu.Unlock()
	if e := c.registers.begin(first.Key(), collection, command, documents); e != nil {
		c.open[int32(binary.LittleEndian.Uint32(header[4:]))] = e
	}
}

func (c *conversation) answer(header, payload []byte) {
	id := int32(binary.LittleEndian.Uint32(header[8:]))
	c.registers.mu.Lock()
	defer c.registers.mu.Unlock()
	if e := c.open[id]; e != nil {
		delete(c.open, id)
		reply, _ := sections(payload)
		e.answer(reply)
	}
}

// begin records a request, and returns what takes its answer; nil if none matters.
func (r *registers) begin(name, collection string, command bson.Raw, documents []bson.Raw) *exchange {
	began := time.Now()
	switch name {
	case "find":
		return r.beginRead(began, collection, command)
	case "insert", "update", "delete", "findAndModify":
	default:
		return nil // reads in other ways, and the creation of indexes
	}
	attempt := attemptOf(command)
	q := r.attempts[attempt]
	if attempt == "" || q == nil {
		var keys []string
		if keys, q = r.parse(name, collection, command, documents); q == nil {
			r.unknown = append(r.unknown, fmt.Sprintf("%s %v", command, documents))
			return nil
		}
		q.began = began
		for _, key := range keys {
			r.requests[key] = append(r.requests[key], q)
		}
		if attempt != "" {
			r.attempts[attempt] = q
		}
	}
	return &exchange{func(reply bson.Raw) {
		if q.answered.IsZero() {
			q.end(collection, reply)
		}
	}}
}

// attemptOf returns what the attempts of one write have in common; empty if the driver does
// not send it again.
func attemptOf(command bson.Raw) string {
	number, ok := command.Lookup("txnNumber").AsInt64OK()
	if _, session, found := command.Lookup("lsid", "id").BinaryOK(); ok && found {
		return fmt.Sprintf("%x/%d", session, number)
	}
	return ""
}

// beginRead records a read when its answer comes. Only reads of what a majority has can be
// linearizable.
func (r *registers) beginRead(began time.Time, collection string, command bson.Raw) *exchange {
	level, _ := command.Lookup("readConcern", "level").StringValueOK()
	if _, projected := command.Lookup("projection").DocumentOK(); projected || level != "majority" {
		return nil
	}
	filter, _ := command.Lookup("filter").DocumentOK()
	return &exchange{func(reply bson.Raw) {
		batch, _ := reply.Lookup("cursor", "firstBatch").ArrayOK()
		found, err := batch.Values()
		if err != nil {
			return // an error, or no batch
		}
		add := func(id string, found version) {
			key := collection + "/" + id
			q := &request{began: began, read: true, answered: time.Now(), found: &found}
			r.requests[key] = append(r.requests[key], q)
		}
		for _, v := range found {
			d := v.Document()
			add(d.Lookup("_id").StringValue(), versionOf(collection, d))
		}
		if id, ok := onlyID(filter); ok && len(found) == 0 {
			add(id, version{})
		}
	}}
}

// onlyID returns the _id that a filter selects, if it has no other condition.
func onlyID(filter bson.Raw) (string, bool) {
	elements, err := filter.Elements()
	if err != nil || len(elements) != 1 || elements[0].Key() != "_id" {
		return "", false
	}
	return elements[0].Value().StringValueOK()
}

// parse returns the write that a command is, and the documents that it concerns; nil if the
// model does not know it.
func (r *registers) parse(name, collection string, command bson.Raw, documents []bson.Raw) ([]string, *request) {
	if name != "findAndModify" && len(documents) != 1 || command.Lookup("autocommit").Type != 0 {
		return nil, nil
	}
	q := new(request)
	switch name {
	case "insert":
		q.insert = true
		for i, v := range versionOf(collection, documents[0]).values {
			q.effects = append(q.effects, effect{field: i, value: v})
		}
		return []string{collection + "/" + documents[0].Lookup("_id").StringValue()}, q
	case "delete":
		q.remove = true
		filter := documents[0].Lookup("q").Document()
		if elements, err := filter.Elements(); err == nil && len(elements) == 0 {
			q.clear = true
			var keys []string
			for key := range r.requests {
				if strings.HasPrefix(key, collection+"/") {
					keys = append(keys, key)
				}
			}
			return keys, q
		}
		return q.parseFilter(collection, filter)
	case "update":
		q.upsert, _ = documents[0].Lookup("upsert").BooleanOK()
		if !q.parseUpdate(collection, documents[0].Lookup("u")) {
			return nil, nil
		}
		return q.parseFilter(collection, documents[0].Lookup("q").Document())
	default:
		q.upsert, _ = command.Lookup("upsert").BooleanOK()
		if after, _ := command.Lookup("new").BooleanOK(); !after || !q.parseUpdate(collection, command.Lookup("update")) {
			return nil, nil
		}
		return q.parseFilter(collection, command.Lookup("query").Document())
	}
}

// parseFilter takes the conditions of a filter, and returns the document that it selects.
func (q *request) parseFilter(collection string, filter bson.Raw) ([]string, *request) {
	elements, err := filter.Elements()
	if err != nil {
		return nil, nil
	}
	var keys []string
	for _, e := range elements {
		field := slices.Index(versions[collection], e.Key())
		switch {
		case e.Key() == "_id":
			id, ok := e.Value().StringValueOK()
			if !ok {
				return nil, nil
			}
			keys = []string{collection + "/" + id}
		case field < 0:
			q.more = true
		default:
			c := condition{field: field, value: valueOf(e.Value())}
			if operator, ok := e.Value().DocumentOK(); ok {
				most, absent := operator.Lookup("$lte"), operator.Lookup("$exists")
				exists, isBool := absent.BooleanOK()
				if most.Type == 0 && (!isBool || exists) {
					return nil, nil
				}
				c.value, c.atMost = valueOf(most), most.Type != 0
			}
			q.conditions = append(q.conditions, c)
		}
	}
	if keys == nil {
		return nil, nil
	}
	return keys, q
}

// parseUpdate takes the effects of an update, and reports whether the model knows it. An
// update with expressions can only add one to a version field.
func (q *request) parseUpdate(collection string, update bson.RawValue) bool {
	documents := []bson.RawValue{update}
	if stages, ok := update.ArrayOK(); ok {
		documents, _ = stages.Values()
	}
	for _, d := range documents {
		operators, _ := d.Document().Elements()
		for _, operator := range operators {
			changed, ok := operator.Value().DocumentOK()
			changes, err := changed.Elements()
			if !ok || err != nil {
				return false
			}
			for _, change := range changes {
				field := slices.Index(versions[collection], change.Key())
				if field < 0 {
					continue
				}
				e := effect{field: field, value: valueOf(change.Value())}
				switch {
				case update.Type == bson.TypeArray && change.Value().Type == bson.TypeEmbeddedDocument:
					sum, ok := change.Value().Document().Lookup("$add").ArrayOK()
					if !ok {
						return false
					}
					e.adds, e.value = true, valueOf(bson.Raw(sum).Lookup("1"))
				case operator.Key() == "$inc":
					e.adds = true
				case operator.Key() == "$unset":
					e.value = value{}
				case operator.Key() != "$set":
					return false
				}
				q.effects = append(q.effects, e)
			}
		}
	}
	return true
}

// end takes the answer of a write. An error leaves open whether it was executed.
func (q *request) end(collection string, reply bson.Raw) {
	ok, _ := reply.Lookup("ok").AsFloat64OK()
	code, _ := reply.Lookup("code").AsInt64OK()
	if first, failed := reply.Lookup("writeErrors", "0", "code").AsInt64OK(); failed {
		ok, code = 0, first
	}
	const duplicateKey = 11000
	switch {
	case ok == 0 && code == duplicateKey:
		q.exists = true
	case ok == 0 || reply.Lookup("writeConcernError").Type != 0:
		return
	case reply.Lookup("lastErrorObject").Type != 0:
		if d, is := reply.Lookup("value").DocumentOK(); is {
			found := versionOf(collection, d)
			q.done, q.found = true, &found
		}
	default:
		n, _ := reply.Lookup("n").AsInt64OK()
		q.done = n > 0
	}
	q.answered = time.Now()
}

func versionOf(collection string, document bson.Raw) version {
	v := version{exists: true}
	for i, field := range versions[collection] {
		v.values[i] = valueOf(document.Lookup(strings.Split(field, ".")...))
	}
	return v
}

func valueOf(v bson.RawValue) value {
	if number, ok := v.AsInt64OK(); ok {
		return value{set: true, number: number}
	}
	text, ok := v.StringValueOK()
	return value{set: ok, text: text}
}

// matches reports whether a state fulfils the conditions that the model knows.
func (q *request) matches(v version) bool {
	return v.exists && !slices.ContainsFunc(q.conditions, func(c condition) bool {
		if c.atMost {
			return !v.values[c.field].set || v.values[c.field].number > c.value.number
		}
		return v.values[c.field] != c.value
	})
}

// after is the state that an executed write leaves behind.
func (q *request) after(v version) version {
	if q.remove {
		return version{}
	}
	if !v.exists {
		for _, c := range q.conditions {
			v.values[c.field] = c.value
		}
	}
	v.exists = true
	for _, e := range q.effects {
		if e.adds {
			v.values[e.field] = value{set: true, number: v.values[e.field].number + e.value.number}
			continue
		}
		v.values[e.field] = e.value
	}
	return v
}

// raises reports whether the request may change the state v of a document into next.
func (q *request) raises(v, next version) bool {
	if len(q.effects) == 0 || !v.exists || !next.exists {
		return true
	}
	for i := range v.values {
		if c := cmp.Compare(next.values[i].number, v.values[i].number); c != 0 {
			return c > 0
		}
	}
	return false
}

// step returns the states in which a document can be after a request, if it was in the state
// v; none if the answer contradicts it.
func (q *request) step(v version) []version {
	if q.read {
		if v == *q.found {
			return []version{v}
		}
		return nil
	}
	can := q.matches(v)
	switch {
	case q.insert || q.upsert && !v.exists:
		can = !v.exists
	case q.clear:
		can = true
	}
	next := q.after(v)
	switch {
	case q.answered.IsZero():
		if can && next != v && q.raises(v, next) {
			return []version{v, next}
		}
		return []version{v}
	case q.done || q.clear:
		if can && q.raises(v, next) && (q.found == nil || *q.found == next) {
			return []version{next}
		}
		return nil
	case q.exists:
		if v.exists && (q.insert || q.more || !can) {
			return []version{v}
		}
		return nil
	default:
		if !can || q.more {
			return []version{v}
		}
		return nil
	}
}

// String describes a request.
func (q *request) String() string {
	answer := "without an answer"
	if !q.answered.IsZero() {
		answer = fmt.Sprintf("answered after %v: done %v, exists %v", q.answered.Sub(q.began), q.done, q.exists)
		if q.found != nil {
			answer += fmt.Sprintf(", found %+v", *q.found)
		}
	}
	return fmt.Sprintf("read %v, insert %v, upsert %v, remove %v, clear %v, if %+v, then %+v, %s", q.read, q.insert, q.upsert, q.remove, q.clear, q.conditions, q.effects, answer)
}

// mostSteps bounds the search for an order of the requests for one document.
const mostSteps = 5_000_000

// check describes the documents of a pipeline whose requests have no order in which each
// answer is right.
func (r *registers) check(w *World) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	findings := slices.Clone(r.unknown[:min(len(r.unknown), 4)])
	for i := range findings {
		findings[i] = "the model of registers does not know " + findings[i]
	}
	for _, key := range w.agreements() {
		if err := linearizable(r.requests[key], w.history.began); err != nil {
			findings = append(findings, fmt.Sprintf("%s: %v", key, err))
		}
	}
	return findings
}

// agreements are the documents by which the processes of a pipeline agree.
func (w *World) agreements() []string {
	documents := []string{"checkpoints/" + w.named("events"), "projections/" + w.named("ledger"), "projections/" + w.named("tally")}
	if w.plan.Election == electionMongoDB {
		documents = append(documents, "leader_leases/"+w.named("lease"))
	}
	return documents
}

// linearizable reports by an error that no order of the requests for a document explains all
// answers.
func linearizable(requests []*request, began time.Time) error {
	if len(requests) == 0 {
		return errors.New("no request for it was recorded")
	}
	steps := 0
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{version{}} },
		Step: func(state, input, _ any) []any {
			if steps++; steps > mostSteps {
				return nil
			}
			var next []any
			for _, v := range input.(*request).step(state.(version)) {
				next = append(next, v)
			}
			return next
		},
	}
	history := make([]porcupine.Operation, len(requests))
	for i, q := range requests {
		history[i] = porcupine.Operation{ClientId: i, Input: q, Call: q.began.UnixNano(), Return: math.MaxInt64}
		if !q.answered.IsZero() {
			history[i].Return = q.answered.UnixNano()
		}
	}
	result, info := porcupine.CheckOperationsVerbose(model.ToModel(), history, 0)
	if result == porcupine.Ok {
		return nil
	}
	if steps > mostSteps {
		return errors.New("it takes too long to find out whether it is a register: bound what is without an answer")
	}
	// The first request that the longest order leaves out is near the contradiction.
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations()[0] {
		if len(partial) > len(longest) {
			longest = partial
		}
	}
	for _, q := range requests {
		if !slices.ContainsFunc(longest, func(o porcupine.Operation) bool { return o.Input == any(q) }) {
			return fmt.Errorf("no order of %d requests explains the one at %v: %v", len(requests), q.began.Sub(began), q)
		}
	}
	return fmt.Errorf("no order of %d requests explains all answers", len(requests))
}
