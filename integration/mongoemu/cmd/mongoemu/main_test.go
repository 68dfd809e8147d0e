package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	driver "go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"
)

// asCommand is the variable that makes the test binary run as the command.
const asCommand = "MONGOEMU_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestHelpAndWrongFlags(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	port := taken.Addr().String()
	for _, tt := range []struct {
		args []string
		err  error
		says []string
	}{
		{[]string{"--version"}, nil, []string{"mongoemu "}},
		{[]string{"--help"}, nil, []string{"--oplog-size", "--sharded", "MONGOEMU_DATA_DIR"}},
		{[]string{"--nonsense"}, errUsage, []string{"unknown flag --nonsense"}},
		{[]string{"--oplog-size=many"}, errUsage, []string{"oplog-size"}},
		{[]string{"--ttl-interval=-1s"}, errUsage, []string{"TTL interval must not be negative"}},
		{[]string{"--address=nowhere:xx"}, nil, []string{"listen for clients"}},
		{[]string{"--address=" + port}, syscall.EADDRINUSE, []string{port, "stop what listens there, or choose another by --address"}},
	} {
		var out bytes.Buffer
		err := run(t.Context(), tt.args, &out, &out)
		if tt.err != nil && !errors.Is(err, tt.err) {
			t.Errorf("%v: %v, want %v", tt.args, err, tt.err)
		}
		for _, want := range tt.says {
			if !strings.Contains(fmt.Sprint(out.String(), err), want) {
				t.Errorf("%v: %q is not reported: %v\n%s", tt.args, want, err, out.String())
			}
		}
	}
}

// TestProcess runs the command as a process: the printed address works, and SIGTERM ends it.
func TestProcess(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "--address=127.0.0.1:0", "--oplog-size=1", "--data-dir="+t.TempDir())
	cmd.Env, cmd.Stderr = append(os.Environ(), asCommand+"=1"), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("no line", lines.Err())
	}
	client, err := mongo.Connect(driver.Client().ApplyURI(lines.Text()).SetHeartbeatInterval(500 * time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(ctx, nil); err != nil {
		t.Error(err)
	}
	if err := client.Disconnect(ctx); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
