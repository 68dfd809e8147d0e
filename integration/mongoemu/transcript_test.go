package mongoemu_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// transcripts is the path of replies recorded from a real replica set, in a folder beside
// the repository. A clone without them skips the replay.
const transcripts = "../../../*/*/mongodb-transcripts/replica-set.ndjson"

// exchange is one recorded command and its reply.
type exchange struct {
	N        int             `json:"n"`
	Scenario string          `json:"scenario"`
	DB       string          `json:"db"`
	Command  json.RawMessage `json:"command"`
	Reply    json.RawMessage `json:"reply"`
}

// later has the replies that MongoDB 4.4 to 8.0 gives differently from the recorded server,
// a development build before 4.4, by the exchange's number. Each has the reason, and a
// function that changes the recorded reply before the comparison.
var later = map[int]struct {
	why    string
	change func(want bson.D) bson.D
}{
	1:  {"hello is answered since 4.4.2", func(bson.D) bson.D { return nil }},
	2:  {"isMaster has topologyVersion since 4.4", extra("topologyVersion")},
	4:  {"buildInfo describes the build", onlyFields("version", "versionArray", "bits", "debug", "maxBsonObjectSize", "ok")},
	10: {"createIndexes tells its commitQuorum since 4.4", extra("commitQuorum")},
	13: {"createIndexes tells its commitQuorum since 4.4", extra("commitQuorum")},
	19: {"a duplicate key's value has its field names since 4.4", namedKeyValue},
	20: {"a duplicate key's value has its field names since 4.4", namedKeyValue},
	21: {"a duplicate key's value has its field names since 4.4", namedKeyValue},
	38: {"a duplicate key's value has its field names since 4.4", namedKeyValue},
	42: {"a duplicate key's value has its field names since 4.4", namedKeyValue},
	60: {"a duplicate key's value has its field names since 4.4", namedKeyValue},
	79: {"a lost resume point is 286 with a label since 4.4", failsWith(286, "ChangeStreamHistoryLost", "NonResumableChangeStreamError")},
	80: {"a malformed token is 50811 since 4.4", failsWith(50811, "Location50811")},
	82: {"a malformed token is 50811 since 4.4", failsWith(50811, "Location50811")},
	// The statistics of another storage engine and of a longer history.
	105: {"statistics of WiredTiger", onlyFields("ns", "capped", "max", "nindexes", "ok")},
	106: {"the recorded server's first entry is an insert of its own", firstEntryIsNoop},
	107: {"members and optimes of another version", onlyFields("set", "myState", "term", "ok")},
}

func TestTranscript(t *testing.T) {
	t.Parallel()
	exchanges := readTranscript(t)
	s, _ := start(t, mongoemu.Config{})
	noop(t, s)
	s.TruncateOplog(1) // as the recorded server's oplog had lost its beginning
	r := &replay{t: t, plain: dialRaw(t, s), ids: map[int64]int64{}, tokens: map[string]string{}}
	for _, x := range exchanges {
		r.exchange(x)
	}
}

func readTranscript(t *testing.T) []exchange {
	t.Helper()
	found, err := filepath.Glob(transcripts)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Skipf("there are no replies recorded from a real server at %s; what they taught is in TestLessons", transcripts)
	}
	f, err := os.Open(found[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []exchange
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var x exchange
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// replay runs the exchanges in order and translates the values that differ between runs:
// cursor ids, tokens and times.
type replay struct {
	t       *testing.T
	plain   *rawClient
	ids     map[int64]int64   // recorded cursor id to ours
	tokens  map[string]string // recorded token to ours
	started bson.Timestamp
}

// transactions has the session of each exchange that runs in a transaction. It says whether
// the exchange is the first one there, and which exchange commits afterwards.
var transactions = map[int]struct {
	session int64
	first   bool
	commit  int // commits after this exchange
}{
	56: {session: 1, first: true, commit: 58},
	57: {session: 2, first: true},
	60: {session: 3, first: true},
	61: {session: 3},
	91: {session: 4, first: true, commit: 92},
}

func lsid(n int64) bson.D {
	id := [16]byte{15: byte(n)}
	return bson.D{{Key: "id", Value: bson.Binary{Subtype: 4, Data: id[:]}}}
}

func (r *replay) exchange(x exchange) {
	r.t.Helper()
	if x.Command == nil {
		return // the driver's own summary of the document that is too large: tested elsewhere
	}
	var command, want bson.D
	r.decode(x.Command, &command)
	r.decode(x.Reply, &want)
	command = r.translate(command).(bson.D)
	txn, inside := transactions[x.N]
	if inside {
		command = append(command, bson.E{Key: "lsid", Value: lsid(txn.session)}, bson.E{Key: "txnNumber", Value: int64(1)}, bson.E{Key: "autocommit", Value: false})
		if txn.first {
			command = append(command, bson.E{Key: "startTransaction", Value: true})
		}
	}
	got := r.plain.run(x.DB, command)
	if l, ok := later[x.N]; ok {
		want = l.change(want)
	}
	if want != nil {
		if diff := r.compare("", want, got); diff != "" {
			r.t.Errorf("exchange %d (%s): %s\n%s\nwant %v\ngot  %v", x.N, x.Scenario, diff, x.Command, want, got)
		}
	}
	if x.N == 13 {
		r.started = get(got, "operationTime").(bson.Timestamp)
	}
	for _, after := range transactions {
		if after.commit == x.N {
			r.commit(after.session)
		}
	}
}

func (r *replay) decode(raw []byte, into *bson.D) {
	r.t.Helper()
	if err := bson.UnmarshalExtJSON(raw, true, into); err != nil {
		r.t.Fatal(err)
	}
}

func (r *replay) commit(session int64) {
	r.t.Helper()
	reply := r.plain.run("admin", bson.D{
		{Key: "commitTransaction", Value: 1}, {Key: "lsid", Value: lsid(session)},
		{Key: "txnNumber", Value: int64(1)}, {Key: "autocommit", Value: false},
	})
	if get(reply, "ok") != 1.0 {
		r.t.Fatalf("commit of session %d: %v", session, reply)
	}
}

// translate replaces cursor ids, tokens and times in a command by those of this run.
func (r *replay) translate(v any) any {
	switch v := v.(type) {
	case bson.D:
		out := make(bson.D, len(v))
		for i, e := range v {
			switch {
			case e.Key == "maxTimeMS":
				e.Value = int32(100)
			case e.Key == "startAtOperationTime" && e.Value.(bson.Timestamp).T > 1000:
				e.Value = r.started
			default:
				e.Value = r.translate(e.Value)
			}
			out[i] = e
		}
		return out
	case bson.A:
		out := make(bson.A, len(v))
		for i, e := range v {
			out[i] = r.translate(e)
		}
		return out
	case int64:
		if id, ok := r.ids[v]; ok {
			return id
		}
	case string:
		if token, ok := r.tokens[v]; ok {
			return token
		}
	}
	return v
}

// volatile are fields of which only the type is compared.
var volatile = []string{
	"operationTime", "$clusterTime", "opTime", "clusterTime", "wallTime", "uuid", "at", "localTime", "lastWrite",
	"hosts", "primary", "me", "connectionId", "electionId", "errmsg", "version", "versionArray", "lsid", "topologyVersion",
	"maxWireVersion", "wall", "ts",
}

// compare returns the first difference between a recorded reply and ours.
func (r *replay) compare(at string, want, got any) string {
	if fmt.Sprintf("%T", want) != fmt.Sprintf("%T", got) {
		return fmt.Sprintf("%s: type %T, want %T", at, got, want)
	}
	switch want := want.(type) {
	case bson.D:
		return r.compareDocuments(at, want, got.(bson.D))
	case bson.A:
		other := got.(bson.A)
		if len(want) != len(other) {
			return fmt.Sprintf("%s: %d elements, want %d", at, len(other), len(want))
		}
		for i := range want {
			if diff := r.compare(fmt.Sprintf("%s[%d]", at, i), want[i], other[i]); diff != "" {
				return diff
			}
		}
		return ""
	}
	name := at[strings.LastIndexByte(at, '.')+1:]
	switch {
	case name == "_data":
		r.tokens[want.(string)] = got.(string)
		return ""
	case strings.HasSuffix(at, "cursor.id"), strings.HasPrefix(at, ".cursorsKilled"):
		if (want.(int64) == 0) != (got.(int64) == 0) {
			return fmt.Sprintf("%s: cursor id %v, want %v", at, got, want)
		}
		r.ids[want.(int64)] = got.(int64)
		return ""
	}
	if !equalValues(want, got) {
		return fmt.Sprintf("%s: %v, want %v", at, got, want)
	}
	return ""
}

func equalValues(a, b any) bool {
	x, err := bson.Marshal(bson.D{{Key: "", Value: a}})
	if err != nil {
		return false
	}
	y, err := bson.Marshal(bson.D{{Key: "", Value: b}})
	return err == nil && string(x) == string(y)
}

func (r *replay) compareDocuments(at string, want, got bson.D) string {
	wanted, given := fields(want), fields(got)
	if stored(at) && !slices.Equal(names(want), names(got)) {
		return fmt.Sprintf("%s: fields %v, want %v", at, names(got), names(want))
	}
	if _, ok := given["wallTime"]; ok && wanted["operationType"] != nil {
		delete(given, "wallTime") // change events have it since 6.0
	}
	for _, name := range extras(wanted) {
		delete(given, name)
	}
	delete(wanted, "")
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		path := at + "." + name
		other, ok := given[name]
		if !ok {
			return path + ": missing"
		}
		delete(given, name)
		if slices.Contains(volatile, name) {
			if fmt.Sprintf("%T", wanted[name]) != fmt.Sprintf("%T", other) {
				return fmt.Sprintf("%s: type %T, want %T", path, other, wanted[name])
			}
			continue
		}
		if diff := r.compare(path, wanted[name], other); diff != "" {
			return diff
		}
	}
	if len(given) > 0 {
		return fmt.Sprintf("%s: unexpected fields %v", at, slices.Sorted(maps.Keys(given)))
	}
	return ""
}

// stored reports whether a place in a reply is a stored document, in which the order of
// fields matters. It does not matter in replies and change events themselves.
func stored(at string) bool {
	return strings.Contains(at, ".fullDocument") || strings.HasPrefix(at, ".value") ||
		strings.HasPrefix(at, ".cursor.firstBatch[") && !strings.Contains(at, "operationType")
}

func names(d bson.D) []string {
	var out []string
	for _, e := range d {
		if e.Key != "wallTime" {
			out = append(out, e.Key)
		}
	}
	return out
}

func fields(d bson.D) map[string]any {
	m := map[string]any{}
	for _, e := range d {
		m[e.Key] = e.Value
	}
	return m
}

// extras returns further names that the changed reply allows. They are in a field without a
// name.
func extras(wanted map[string]any) []string {
	names, _ := wanted[""].([]string)
	return names
}

func extra(names ...string) func(bson.D) bson.D {
	return func(want bson.D) bson.D { return append(want, bson.E{Key: "", Value: names}) }
}

// onlyFields keeps only some fields of a reply for the comparison.
func onlyFields(names ...string) func(bson.D) bson.D {
	return func(want bson.D) bson.D {
		var kept bson.D
		for _, e := range want {
			if slices.Contains(names, e.Key) {
				kept = append(kept, e)
			}
		}
		return append(kept, bson.E{Key: "", Value: []string{
			"$clusterTime", "operationTime", "gitVersion", "modules", "allocator", "javascriptEngine", "sysInfo",
			"openssl", "buildEnvironment", "storageEngines", "size", "count", "maxSize", "scaleFactor", "date",
			"syncSourceHost", "syncSourceId", "heartbeatIntervalMillis", "majorityVoteCount", "writeMajorityCount",
			"optimes", "members",
		}})
	}
}

// firstEntryIsNoop changes the first entry of a recorded oplog to a no-op.
func firstEntryIsNoop(want bson.D) bson.D {
	entry := get(want, "cursor", "firstBatch").(bson.A)[0].(bson.D)
	for i := range entry {
		switch entry[i].Key {
		case "op":
			entry[i].Value = "n"
		case "ns":
			entry[i].Value = ""
		}
	}
	return want
}

func failsWith(code int32, name string, labels ...string) func(bson.D) bson.D {
	return func(want bson.D) bson.D {
		var changed bson.D
		for _, e := range want {
			switch e.Key {
			case "code":
				e.Value = code
			case "codeName":
				e.Value = name
			}
			changed = append(changed, e)
		}
		if len(labels) > 0 {
			list := bson.A{}
			for _, l := range labels {
				list = append(list, l)
			}
			changed = append(changed, bson.E{Key: "errorLabels", Value: list})
		}
		return changed
	}
}

// namedKeyValue gives the keyValue of write errors the names of its keyPattern.
func namedKeyValue(want bson.D) bson.D {
	for _, e := range want {
		if e.Key != "writeErrors" {
			continue
		}
		for _, w := range e.Value.(bson.A) {
			failure := w.(bson.D)
			pattern, _ := get(failure, "keyPattern").(bson.D)
			for i := range failure {
				if failure[i].Key != "keyValue" {
					continue
				}
				values := failure[i].Value.(bson.D)
				if len(values) != len(pattern) { // the record keeps one of several unnamed values
					values = bson.D{{Key: pattern[0].Key, Value: "a"}, {Key: pattern[1].Key, Value: values[len(values)-1].Value}}
				} else {
					for j := range values {
						values[j].Key = pattern[j].Key
					}
				}
				failure[i].Value = values
			}
		}
	}
	return want
}
