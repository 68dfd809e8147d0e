package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHelpAndMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--help"}, 0, "--oplog-size"},
		{[]string{"--nonsense"}, 2, "nonsense"},
		{[]string{"--oplog-size=many"}, 2, "oplog-size"},
		{[]string{"--ttl-interval=-1s"}, 1, "TTL interval must not be negative"},
		{[]string{"--address=nowhere:xx"}, 1, "listen for clients"},
	} {
		var out bytes.Buffer
		if code := run(tt.args, &out, &out); code != tt.code || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%v: exit %d, want %d: %s", tt.args, code, tt.code, out.String())
		}
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- serve(ctx, settings{Address: "127.0.0.1:0", ControlAddress: "127.0.0.1:0", OplogSize: 1}, w)
	}()
	lines := bufio.NewScanner(r)
	read := func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatal("no line", lines.Err())
		}
		return lines.Text()
	}
	uri, control := read(), strings.TrimPrefix(read(), "control ")
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetHeartbeatInterval(500 * time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(ctx, nil); err != nil {
		t.Error(err)
	}
	if err := client.Disconnect(ctx); err != nil {
		t.Error(err)
	}
	resp, err := http.Get(control + "/status") //nolint:noctx // a local server of the test
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if !strings.Contains(string(body), uri) {
		t.Errorf("%s", body)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
