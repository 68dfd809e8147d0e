package mongotest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"
)

// Server is a running stand-in. The zero value is not running; [Server.Run] runs it.
type Server struct {
	// Sharded makes it answer as the mongos of a sharded cluster.
	Sharded   bool
	uri       string
	client    *mongo.Client
	databases atomic.Int64
	// idle has the workers that execute no request.
	idle chan worker
}

// Run builds and starts the stand-in, and others if there are any, runs the tests of m
// with them, and returns their exit status for [os.Exit]. It fails if the tests leave
// goroutines behind.
func (s *Server) Run(m *testing.M, others ...*Server) int {
	var stops []func() error
	for _, server := range append([]*Server{s}, others...) {
		stop, err := server.start()
		if err != nil {
			fmt.Fprintln(os.Stderr, "mongotest:", err)
			return 1
		}
		stops = append(stops, stop)
	}
	status := m.Run()
	for _, stop := range stops {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, "mongotest:", err)
			return 1
		}
	}
	if err := goleak.Find(); err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// start builds and starts the stand-in, and connects to it.
func (s *Server) start() (stop func() error, err error) {
	source, err := standInSource(".")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "penstock-mongotest-")
	if err != nil {
		return nil, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	binary := filepath.Join(dir, "mongoemu")
	build := exec.Command("go", "build", "-o", binary, "./cmd/mongoemu")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("build the MongoDB stand-in: %w\n%s", err, out), remove())
	}
	// The server ends when its standard input does, so a test that is killed leaves no
	// server behind.
	server := exec.Command("sh", "-c", `"$@" & cat >/dev/null; kill $!; wait`, "sh", binary, "--address=127.0.0.1:0", fmt.Sprintf("--sharded=%t", s.Sharded))
	stdin, err := server.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the MongoDB stand-in: %w", err), remove())
	}
	end := func() error {
		return errors.Join(stdin.Close(), ignoreExit(server.Wait()), remove())
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) || line == "" {
		return nil, errors.Join(errors.New("the MongoDB stand-in did not start"), err, end())
	}
	s.uri = strings.TrimSpace(line)
	s.client, err = mongo.Connect(options.Client().ApplyURI(s.uri).
		SetServerSelectionTimeout(time.Minute).SetHeartbeatInterval(500 * time.Millisecond))
	if err != nil {
		return nil, errors.Join(err, end())
	}
	stopWorkers := s.startWorkers()
	return func() error {
		stopWorkers()
		return errors.Join(s.client.Disconnect(context.Background()), end())
	}, nil
}

// ignoreExit ignores the exit status of a server that was asked to end.
func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// URI is the connection string.
func (s *Server) URI() string { return s.uri }

// Database returns an empty database of the test's own.
func (s *Server) Database(tb testing.TB) *mongo.Database {
	tb.Helper()
	return s.client.Database(fmt.Sprintf("test%d", s.databases.Add(1)))
}
