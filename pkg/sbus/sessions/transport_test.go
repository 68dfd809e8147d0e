package sessions

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a socket whose writes take as long as a test chooses.
type recorder struct {
	net.Conn
	mu     sync.Mutex
	writes [][]byte
	before func()
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.before != nil {
		r.before()
	}
	r.mu.Lock()
	r.writes = append(r.writes, slices.Clone(b))
	r.mu.Unlock()
	return r.Conn.Write(b)
}

func newRecorder(t *testing.T) (*recorder, net.Conn) {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { _ = server.Close() })
	return &recorder{Conn: client}, server
}

func TestTransportWritesWaitingFramesTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		socket, server := newRecorder(t)
		socket.before = func() { <-time.After(100 * time.Millisecond) }
		received := make(chan []byte)
		go func() {
			all, _ := io.ReadAll(server)
			received <- all
		}()
		c := newTransport(socket)
		start := time.Now()
		var want []byte
		for i := range byte(200) {
			if _, err := c.Write([]byte{i}); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				synctest.Wait() // the first is on its way alone
			}
			want = append(want, i)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("writing waited for the socket: %s", took)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if got := <-received; !bytes.Equal(got, want) {
			t.Errorf("received %v", got)
		}
		if len(socket.writes) != 2 {
			t.Errorf("%d writes to the socket, want 2", len(socket.writes))
		}
	})
}

// Not parallel: with one processor, the order in which goroutines run is known, except for rare
// preemptions.
func TestTransportWritesFramesOfReadyGoroutinesTogether(t *testing.T) { //nolint:paralleltest // see above
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const rounds = 20
	together := 0
	for range rounds {
		synctest.Test(t, func(t *testing.T) {
			socket, server := newRecorder(t)
			go func() { _, _ = io.Copy(io.Discard, server) }()
			c := newTransport(socket)
			synctest.Wait()
			for range 3 {
				go func() {
					if _, err := c.Write([]byte{1}); err != nil {
						t.Error(err)
					}
				}()
			}
			synctest.Wait()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if len(socket.writes) == 1 {
				together++
			}
		})
	}
	if together < rounds/2 {
		t.Errorf("three frames shared a write in %d of %d rounds", together, rounds)
	}
}

// go-amqp uses a context's deadline for its write, and a late write would end the
// connection for all sessions.
func TestTransportIgnoresDeadlinesOfWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		socket, server := newRecorder(t)
		c := newTransport(socket)
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, err := c.Write([]byte("late"))
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Second)
		got := make([]byte, 4)
		if _, err := io.ReadFull(server, got); err != nil || string(got) != "late" {
			t.Errorf("read %q, %v", got, err)
		}
		_ = c.Close()
	})
}

func TestTransportBoundsTheWaitingBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		socket, _ := newRecorder(t)
		c := newTransport(socket)
		frame := make([]byte, 32<<10)
		written := 0
		failed := make(chan error, 1)
		start := time.Now()
		go func() {
			for {
				if _, err := c.Write(frame); err != nil {
					failed <- err
					return
				}
				written += len(frame)
			}
		}()
		synctest.Wait()
		if limit := 2*maxPending + len(frame); written == 0 || written > limit {
			t.Errorf("%d bytes wait, at most %d are allowed", written, limit)
		}
		// The peer reads nothing: the connection ends, and so does its reader.
		if err := <-failed; err == nil {
			t.Error("a write to a peer that reads nothing got no error")
		}
		if took := time.Since(start); took != writeTimeout {
			t.Errorf("failed after %s", took)
		}
		if _, err := c.Read(frame); err == nil {
			t.Error("Read got no error after the connection ended")
		}
		_ = c.Close()
	})
}

func TestTransportClosesInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		socket, _ := newRecorder(t)
		c := newTransport(socket)
		_, _ = c.Write([]byte("nobody reads this"))
		synctest.Wait()
		start := time.Now()
		_ = c.Close()
		if took := time.Since(start); took != lastWriteTimeout {
			t.Errorf("closed after %s", took)
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) && err == nil {
			t.Errorf("wrote to a closed transport: %v", err)
		}
	})
}
