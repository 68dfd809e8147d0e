package query_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/query"
)

// TestMemoryOfAThousandWaitingRequestsIsBounded measures 1,000 requests that wait at the
// same time, each over its own connection: memory and goroutines of the server and the
// test's connections together, and lookups in the source. docs/read-your-writes.md states
// the bounds. The test is not parallel, because it would measure other tests too.
func TestMemoryOfAThousandWaitingRequestsIsBounded(t *testing.T) {
	const (
		waits         = 1000
		maxBytes      = 64 << 10 // for each wait, in bytes
		maxGoroutines = 2
		interval      = 25 * time.Millisecond
	)
	s := newService(t)
	server := httptest.NewServer(s.handler)
	defer server.Close()
	before, goroutines := memory(), runtime.NumGoroutine()
	connections := make([]net.Conn, waits)
	var dialer net.Dialer
	for i := range connections {
		connection, err := dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = connection.Close() }()
		if _, err := fmt.Fprintf(connection, "GET /applied?projection=users&aggregateId=%d&eventId=1&timeout=1m HTTP/1.1\r\nHost: localhost\r\n\r\n", i); err != nil {
			t.Fatal(err)
		}
		connections[i] = connection
	}
	for s.poller.Waiting() < waits {
		if t.Context().Err() != nil {
			t.Fatalf("%d requests wait", s.poller.Waiting())
		}
		runtime.Gosched()
	}
	begin := time.Now()
	s.takeLookups()
	var lookups []int
	for len(lookups) < 8 && t.Context().Err() == nil {
		lookups = append(lookups, s.takeLookups()...)
		runtime.Gosched()
	}
	if took := time.Since(begin); len(lookups) > int(took/interval)+1 {
		t.Errorf("%d lookups in %v, one each %v is enough", len(lookups), took, interval)
	}
	bytes, routines := (memory()-before)/waits, float64(runtime.NumGoroutine()-goroutines)/waits
	t.Logf("a wait costs %d bytes and %.1f goroutines", bytes, routines)
	if bytes > maxBytes {
		t.Errorf("a wait costs %d bytes, want at most %d", bytes, maxBytes)
	}
	if routines > maxGoroutines+0.1 {
		t.Errorf("a wait costs %.1f goroutines, want at most %d", routines, maxGoroutines)
	}
	for i := range waits {
		s.set(fmt.Sprint(i), query.Status{Watermark: 1})
	}
	for _, connection := range connections {
		answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), `"applied"`) {
			t.Fatalf("%s %s, %v", answer.Status, body, err)
		}
	}
}

// memory returns the memory in use after a garbage collection.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
