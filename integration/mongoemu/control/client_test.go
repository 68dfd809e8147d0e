package control_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.uber.org/goleak"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/control"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestClient(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := mongoemutest.Start(t, mongoemu.Config{})
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	c := control.NewClient(strings.TrimPrefix(web.URL, "http://"))
	defer c.Close()
	client := mongoemutest.Connect(t, s)
	stream, err := client.Database("db").Watch(ctx, mongo.Pipeline{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close(ctx) }()

	if err := c.FailCommands(ctx, mongoemu.CommandFault{Commands: []string{"ping"}, Code: 8000, Labels: []string{"x"}, Block: time.Millisecond}); err != nil {
		t.Error(err)
	}
	if st, err := c.Status(ctx); err != nil || st.URI != s.URI() || st.PendingFaults != 1 || st.ChangeStreams != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	var failed mongo.ServerError
	if err := client.Ping(ctx, nil); !errors.As(err, &failed) || !failed.HasErrorCode(8000) || !failed.HasErrorLabel("x") {
		t.Error(err)
	}
	if n, err := c.InterruptStreams(ctx, 0); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := c.KillCursors(ctx); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := c.DropConnections(ctx, "nobody"); err != nil || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := c.DropConnections(ctx); err != nil || n == 0 {
		t.Errorf("%d, %v", n, err)
	}
	for name, do := range map[string]func() error{
		"latency":  func() error { return c.SetLatency(ctx, time.Microsecond) },
		"clear":    func() error { return c.ClearFaults(ctx) },
		"noop":     func() error { return c.WriteNoop(ctx) },
		"truncate": func() error { return c.TruncateOplog(ctx, 1) },
		"expire":   func() error { return c.ExpireDocuments(ctx) },
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.SetLatency(ctx, -time.Second); !errors.Is(err, control.ErrRefused) || !strings.Contains(err.Error(), "-1s") {
		t.Error(err)
	}
}
