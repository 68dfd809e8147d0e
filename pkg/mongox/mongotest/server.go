package mongotest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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

// untilEOF runs a program until standard input ends, so a test that is killed leaves no
// server behind.
const untilEOF = `sh -c '"$@" & cat >/dev/null; kill $!; wait' sh`

// start builds and starts the stand-in, and connects to it. The go command caches what it
// runs, so only the first package of a test run links the stand-in.
func (s *Server) start() (stop func() error, err error) {
	source, err := standInSource(".")
	if err != nil {
		return nil, err
	}
	server := exec.Command("go", "run", "-exec", untilEOF, "./cmd/mongoemu", "--address=127.0.0.1:0", fmt.Sprintf("--sharded=%t", s.Sharded))
	server.Dir = source
	stdin, err := server.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("start the MongoDB stand-in: %w", err)
	}
	end := func() error { return errors.Join(stdin.Close(), server.Wait()) }
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

// URI is the connection string.
func (s *Server) URI() string { return s.uri }

// Database returns an empty database of the test's own.
func (s *Server) Database(tb testing.TB) *mongo.Database {
	tb.Helper()
	return s.client.Database(fmt.Sprintf("test%d", s.databases.Add(1)))
}
