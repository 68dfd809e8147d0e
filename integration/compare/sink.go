package compare

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// key identifies an event.
type key struct {
	aggregate string
	id        int64
}

// arrival is an event that has reached its destination, perhaps not for the first time.
type arrival struct {
	key
	at time.Time
}

// sink is the destination of a contender.
type sink interface {
	// counts returns how many events have arrived, and how many arrivals there were.
	counts() (distinct, all int)
	// arrivals are all arrivals, in their order.
	arrivals() ([]arrival, error)
	close() error
}

// topicSink is a topic with duplicate detection of the stand-in for Service Bus.
type topicSink struct{ *harness.Embedded }

func (s topicSink) counts() (distinct, all int) {
	accepted, duplicates := s.TopicCounts()
	return accepted, accepted + duplicates
}

func (s topicSink) arrivals() ([]arrival, error) {
	accepted, err := s.Accepted()
	if err != nil {
		return nil, err
	}
	arrivals := make([]arrival, len(accepted))
	for i, m := range accepted {
		arrivals[i] = arrival{key{m.AggregateID, m.EventID}, m.At}
	}
	return arrivals, nil
}

func (topicSink) close() error { return nil } // the course closes the stand-ins

// record collects arrivals.
type record struct {
	mu   sync.Mutex
	all  []arrival
	seen map[key]struct{}
	err  error
}

// add notes the arrival of an event, of which it gets the document as JSON.
func (r *record) add(document []byte) {
	var ev struct {
		AggregateID string `json:"aggregateId"`
		EventID     int64  `json:"eventId"`
	}
	err := json.Unmarshal(document, &ev)
	if err == nil && ev.AggregateID == "" {
		err = errors.New("it has no aggregateId")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.err = errors.Join(r.err, fmt.Errorf("read an event that has arrived, %.200s: %w", document, err))
		return
	}
	if r.seen == nil {
		r.seen = make(map[key]struct{})
	}
	k := key{ev.AggregateID, ev.EventID}
	r.seen[k] = struct{}{}
	r.all = append(r.all, arrival{k, time.Now()})
}

func (r *record) counts() (distinct, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen), len(r.all)
}

func (r *record) arrivals() ([]arrival, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all), r.err
}

// fileSink reads a file to which a contender appends a record of each event, as a line of
// JSON in the OpenCDC format: https://conduit.io/docs/using/opencdc-record
type fileSink struct {
	record
	stop    chan struct{}
	reading sync.WaitGroup
}

// filePoll is the pause between two looks at the end of the file.
const filePoll = 2 * time.Millisecond

func newFileSink(path string) (*fileSink, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the file for the events: %w", err)
	}
	s := &fileSink{stop: make(chan struct{})}
	s.reading.Go(func() {
		defer file.Close()
		s.read(bufio.NewReaderSize(file, 1<<20))
	})
	return s, nil
}

func (s *fileSink) read(file *bufio.Reader) {
	var line []byte
	for {
		part, err := file.ReadBytes('\n')
		line = append(line, part...)
		if err == nil {
			s.line(line)
			line = nil
			continue
		}
		select {
		case <-time.After(filePoll):
		case <-s.stop:
			return
		}
	}
}

// line reads a record. A payload that is not structured is in base64.
func (s *fileSink) line(line []byte) {
	var cdc struct {
		Payload struct {
			After json.RawMessage `json:"after"`
		} `json:"payload"`
	}
	_ = json.Unmarshal(line, &cdc) // add reports a record without an event
	var raw []byte
	if json.Unmarshal(cdc.Payload.After, &raw) == nil {
		s.add(raw)
		return
	}
	s.add(cdc.Payload.After)
}

func (s *fileSink) close() error {
	close(s.stop)
	s.reading.Wait()
	return nil
}

// elasticSink answers as much of Elasticsearch 7 as a client needs to index documents.
type elasticSink struct {
	record
	server *http.Server
	url    string
}

func newElasticSink() (*elasticSink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen as Elasticsearch: %w", err)
	}
	s := &elasticSink{url: "http://" + listener.Addr().String()}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

func (s *elasticSink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Elastic-Product", "Elasticsearch")
	if !strings.HasSuffix(r.URL.Path, "/_bulk") {
		fmt.Fprint(w, `{"name": "compare", "cluster_name": "compare", "version": {"number": "7.17.0"}, "tagline": "You Know, for Search"}`)
		return
	}
	items, err := s.bulk(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"took": 1, "errors": false, "items": items})
}

// bulk reads the lines of a bulk request, an action before each document.
func (s *elasticSink) bulk(body io.Reader) (items []any, err error) {
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) == 0 {
			if errors.Is(err, io.EOF) {
				return items, nil
			}
			continue
		}
		var action map[string]map[string]any
		if err := json.Unmarshal(line, &action); err != nil || len(action) != 1 {
			return nil, fmt.Errorf("read an action of a bulk request, %.200s: %w", line, err)
		}
		for verb := range maps.Keys(action) {
			answer := map[string]any{"_index": action[verb]["_index"], "_id": action[verb]["_id"], "status": http.StatusCreated}
			items = append(items, map[string]any{verb: answer})
			if verb == "delete" {
				continue
			}
			document, err := lines.ReadBytes('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("read a document of a bulk request: %w", err)
			}
			s.add(document)
		}
	}
}

func (s *elasticSink) close() error { return s.server.Close() }
