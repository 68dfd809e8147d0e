package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// TestMain is also the program that the tests start: the loop, and fakes of the peers.
func TestMain(m *testing.M) {
	args := os.Args[1:]
	var program func(ctx context.Context, args []string) error
	switch {
	case len(args) == 2 && args[0] == "loop":
		program = func(ctx context.Context, args []string) error { return RunLoop(ctx, args[1]) }
	case len(args) > 2 && args[0] == "run":
		program = fakeConduit
	case len(args) == 2 && args[0] == "run":
		program = fakeConnect
	case len(args) == 2 && args[0] == "-f":
		program = fakeMonstache
	case len(args) == 0, strings.HasPrefix(args[0], "-test."):
		os.Exit(m.Run())
	default: // it is asked for its version, and must not run the tests again
		fmt.Println("fake version 1.2.3")
		return
	}
	if err := program(context.Background(), args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {} // until it is killed
}

// setting finds the first text in quotes after a name in a configuration file.
func setting(config []byte, name string) string {
	found := regexp.MustCompile(`(?:^|[\s{])` + name + `[\s=]*\[?"([^"]*)"`).FindSubmatch(config)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// stored reads the events of a collection, as relaxed JSON.
func stored(ctx context.Context, uri, db, collection string, each func(document []byte) error) error {
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return err
	}
	cursor, err := client.Database(db).Collection(collection).Find(ctx, bson.D{})
	if err != nil {
		return err
	}
	for cursor.Next(ctx) {
		document, err := bson.MarshalExtJSON(cursor.Current, false, false)
		if err != nil {
			return err
		}
		if err := each(document); err != nil {
			return err
		}
	}
	return cursor.Err()
}

// fakeConduit appends a record of each event to the file of its pipeline.
func fakeConduit(ctx context.Context, args []string) error {
	config, err := os.ReadFile(args[6])
	if err != nil {
		return err
	}
	file, err := os.OpenFile(setting(config, "path:"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return stored(ctx, setting(config, "uri:"), setting(config, "db:"), setting(config, "collection:"), func(document []byte) error {
		_, err := fmt.Fprintf(file, `{"operation": "snapshot", "payload": {"before": null, "after": %s}}`+"\n", document)
		return err
	})
}

// fakeMonstache indexes each event.
func fakeMonstache(ctx context.Context, args []string) error {
	config, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	db, collection, _ := strings.Cut(setting(config, "direct-read-namespaces"), ".")
	return stored(ctx, setting(config, "mongo-url"), db, collection, func(document []byte) error {
		body := fmt.Sprintf(`{"index": {"_index": "events", "_id": "1"}}`+"\n%s\n", document)
		response, err := http.Post(setting(config, "elasticsearch-urls")+"/_bulk", "application/x-ndjson", strings.NewReader(body))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if !bytes.Contains(answer, []byte(`"errors":false`)) {
			return fmt.Errorf("the bulk request is answered with %s: %w", answer, err)
		}
		return nil
	})
}

// fakeConnect sends each event to the topic.
func fakeConnect(ctx context.Context, args []string) error {
	config, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	conn, err := amqp.Dial(ctx, setting(config, "urls:"), &amqp.ConnOptions{
		SASLType: amqp.SASLTypePlain(setting(config, "user:"), setting(config, "password:")),
	})
	if err != nil {
		return err
	}
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		return err
	}
	sender, err := session.NewSender(ctx, setting(config, "target_address:"), nil)
	if err != nil {
		return err
	}
	return stored(ctx, setting(config, "url:"), setting(config, "database:"), setting(config, "collection:"), func(document []byte) error {
		var ev struct {
			AggregateID string
			EventID     int64
		}
		if err := json.Unmarshal(document, &ev); err != nil {
			return err
		}
		message := amqp.NewMessage(document)
		message.Properties = &amqp.MessageProperties{MessageID: fmt.Sprintf("%s/%d", ev.AggregateID, ev.EventID), GroupID: &ev.AggregateID}
		return sender.Send(ctx, message, nil)
	})
}

func small(t *testing.T) Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{Self: self, Events: 200, Rate: 100, For: time.Second, Progress: io.Discard}
}

// named returns the contender of that name.
func named(t *testing.T, o *Options, name string) contender {
	t.Helper()
	for _, c := range o.contenders(t.Context()) {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("there is no contender %q", name)
	return contender{}
}

// The loop goes through all scenarios. It loses nothing, and two of them send events twice:
// not all, because one that starts late begins at the token that the other has saved.
func TestScenarios(t *testing.T) {
	t.Parallel()
	o := small(t)
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			cells, err := o.run(t.Context(), s, named(t, &o, "one by one, in Go"))
			if err != nil || len(cells) != len(s.rows) {
				t.Fatalf("%q for %q: %v", cells, s.rows, err)
			}
			for i, row := range s.rows {
				switch {
				case !strings.Contains(row, "lost"):
				case s.name == "two at once" && cells[i] == "0 / 0 / 0":
					t.Errorf("%s: none is repeated", row)
				case !strings.HasPrefix(cells[i], "0 / "):
					t.Errorf("%s: %s", row, cells[i])
				}
			}
		})
	}
}

// Each peer finds the events and its destination in its configuration.
func TestPeersAreConfigured(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.Conduit, o.Monstache, o.Connect = o.Self, o.Self, o.Self
	for _, name := range []string{"Conduit", "Monstache", "Redpanda Connect"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := named(t, &o, name)
			if peer.version != "1.2.3" {
				t.Errorf("its version is %q", peer.version)
			}
			if cells, err := o.run(t.Context(), scenarios()[0], peer); err != nil {
				t.Errorf("%q: %v", cells, err)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	var arrivals []arrival
	for _, k := range []key{{"a", 1}, {"b", 2}, {"a", 2}, {"a", 2}, {"a", 1}, {"b", 1}, {"a", 3}} {
		arrivals = append(arrivals, arrival{key: k})
	}
	if d := judge(arrivals, 6); d != (delivery{lost: 1, repeated: 2, disordered: 1}) {
		t.Errorf("judged %+v", d)
	}
}

// A record of OpenCDC has its payload as a document, or as text in base64.
func TestFileSinkReadsRecords(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events")
	s, err := newFileSink(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal([]byte(`{"aggregateId": "b", "eventId": 7}`))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(file, `{"payload": {"after": {"aggregateId": "a", "eventId": 1}}}`+"\n"+`{"payload": {"after": %s}}`+"\n", raw)
	for n := 0; n < 2; n, _ = s.counts() {
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the records were not read")
		}
	}
	fmt.Fprintln(file, `{"payload": {}}`)
	for err == nil {
		_, err = s.arrivals()
	}
	if !strings.Contains(err.Error(), "read an event that has arrived") {
		t.Error(err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
