package app_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/app"
)

// run runs the command that args name.
func run(t *testing.T, env map[string]string, out io.Writer, args ...string) error {
	t.Helper()
	program, err := app.Parse(args, func(name string) (string, bool) { v, ok := env[name]; return v, ok }, out, out, nil)
	if err != nil {
		return err
	}
	return program.Run(t.Context())
}

func TestCheckProjectionsEndsWithoutConnecting(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		projections, events string
		ends                error
		says                string
	}{
		"right":          {declared, "", nil, "and so are its projections: 1"},
		"wrong":          {strings.Replace(declared, "payload.name", "nobody", 1), "", cli.ErrUsage, "nobody"},
		"event store":    {declared, "userReadModels", cli.ErrUsage, "is the event store (PENSTOCK_EVENTS_COLLECTION): give the projection another collection"},
		"Penstock's own": {declared, "parked", cli.ErrUsage, "is parked, a collection in which Penstock keeps its own data in database penstock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := environment(t, test.projections)
			env["PENSTOCK_EVENTS_COLLECTION"] = test.events
			var out bytes.Buffer
			err := run(t, env, &out, "check")
			if !errors.Is(err, test.ends) || !strings.Contains(out.String(), test.says) {
				t.Errorf("check ends with %v and says %q", err, out.String())
			}
		})
	}
}

// The init container of the chart checks the configuration and has no secret.
func TestCheckWithoutConnectionsNeedsNoSecret(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		set  map[string]string
		ends error
		says string
	}{
		"right":          {nil, nil, nil, "the connections, which were not checked"},
		"another wrong":  {nil, map[string]string{"PENSTOCK_BATCH_SIZE": "0"}, cli.ErrUsage, "PENSTOCK_BATCH_SIZE"},
		"with --connect": {[]string{"--connect"}, nil, cli.ErrUsage, "--without-connections is set beside --connect or PATHS"},
	} {
		env := environment(t, declared)
		for _, secret := range []string{"MONGODB_URI", "AZURE_SERVICEBUS_CONNECTION_STRING"} {
			if env[secret] == "" {
				t.Fatalf("the environment has no %s", secret)
			}
			delete(env, secret)
		}
		maps.Copy(env, test.set)
		var out bytes.Buffer
		err := run(t, env, &out, append([]string{"check", "--without-connections"}, test.args...)...)
		if !errors.Is(err, test.ends) || !strings.Contains(out.String(), test.says) {
			t.Errorf("%s: ends with %v and says %q", name, err, out.String())
		}
	}
}
