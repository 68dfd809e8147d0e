package health_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/health"
)

// serve serves o until the test ends, and returns a function that opens a connection.
func serve(t *testing.T, o health.HTTPOptions) func(text string) net.Conn {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := health.NewHTTPServer(o)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return func(text string) net.Conn {
		t.Helper()
		var dialer net.Dialer
		connection, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		_ = connection.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(connection, text) // The server may refuse the rest of it.
		return connection
	}
}

// status reads a response; it returns 0 if the connection has ended.
func status(connection net.Conn) int {
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode
}

const request = "GET / HTTP/1.1\r\nHost: localhost\r\n"

func TestNewConnectionReplacesTheOldestThatWaits(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 3), make(chan struct{})
	open := serve(t, health.HTTPOptions{Connections: 3, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	})})
	busy := open(request + "\r\n")
	<-arrived
	oldest, newer := open(request), open(request)
	// The fourth connection replaces the oldest that waits, and not the busy one.
	fourth := open(request + "\r\n")
	<-arrived
	if code := status(oldest); code != 0 {
		t.Errorf("the oldest waiting connection was answered with %d", code)
	}
	close(release)
	for name, connection := range map[string]net.Conn{"busy": busy, "fourth": fourth} {
		if code := status(connection); code != http.StatusOK {
			t.Errorf("%s: status %d", name, code)
		}
	}
	_, _ = io.WriteString(newer, "\r\n")
	if code := status(newer); code != http.StatusOK {
		t.Errorf("newer: status %d", code)
	}
}

func TestNewConnectionReplacesTheOldestRequestIfAllAreBusy(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 3), make(chan struct{})
	open := serve(t, health.HTTPOptions{Connections: 2, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})})
	oldest := open(request + "\r\n")
	<-arrived
	newer := open(request + "\r\n")
	<-arrived
	third := open(request + "\r\n")
	<-arrived
	if code := status(oldest); code != 0 {
		t.Errorf("the oldest connection was answered with %d", code)
	}
	close(release)
	for _, connection := range []net.Conn{newer, third} {
		if code := status(connection); code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	}
}

func TestLargeHeaderIsRefused(t *testing.T) {
	t.Parallel()
	open := serve(t, health.HTTPOptions{Handler: http.NotFoundHandler()})
	if code := status(open(request + "Cookie: " + strings.Repeat("x", 15<<10) + "\r\n\r\n")); code != http.StatusNotFound {
		t.Errorf("a header of 15 KiB: status %d", code)
	}
	if code := status(open(request + "Cookie: " + strings.Repeat("x", 30<<10) + "\r\n\r\n")); code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 30 KiB: status %d", code)
	}
}

// A connection without a complete request ends, whether its header or its body is missing.
func TestIncompleteRequestEnds(t *testing.T) {
	t.Parallel()
	open := serve(t, health.HTTPOptions{Handler: http.NotFoundHandler()})
	header, body := open(request), open(request+"Content-Length: 10\r\n\r\n")
	start := time.Now()
	for name, connection := range map[string]net.Conn{"header": header, "body": body} {
		if _, err := io.Copy(io.Discard, connection); err != nil {
			t.Errorf("%s: the connection is open after %v: %v", name, time.Since(start), err)
		}
	}
}

// A client that takes no answer is disconnected.
func TestAnswerThatIsNotReadEnds(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	open := serve(t, health.HTTPOptions{WriteTimeout: 100 * time.Millisecond, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 64<<20))
		ended <- err
	})})
	open(request + "\r\n")
	if err := <-ended; err == nil {
		t.Error("an answer that nobody reads was sent")
	}
}
