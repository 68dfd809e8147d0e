package cli_test

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

// outcome is the result of a run of Parse.
type outcome struct {
	command        string
	stdout, stderr string
	err            error
}

func run(t *testing.T, config any, environment map[string]string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	lookup := func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	}
	command, err := cli.Parse(config, cli.Info{Name: "publisher", Description: "Publishes events."}, args, lookup, &stdout, &stderr)
	return outcome{command.Path, stdout.String(), stderr.String(), err}
}

// complete is the smallest environment with which a service starts.
func complete() map[string]string {
	return map[string]string{
		"MONGODB_URI":                        "mongodb://u:s3cret@h",
		"AZURE_SERVICEBUS_CONNECTION_STRING": "Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey=s3cret",
		"AZURE_SERVICEBUS_TOPIC_NAME":        "events",
	}
}

// lines returns the printed problems.
func lines(t *testing.T, o outcome) []string {
	t.Helper()
	if !errors.Is(o.err, cli.ErrUsage) || o.stdout != "" {
		t.Fatalf("got %v, stdout %q", o.err, o.stdout)
	}
	var found []string
	for line := range strings.Lines(o.stderr) {
		if problem, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "  - "); ok {
			found = append(found, problem)
		}
	}
	return found
}

func TestParse(t *testing.T) {
	t.Parallel()
	environment := complete()
	environment["PENSTOCK_LEASE_DURATION"] = "1m"
	environment["PENSTOCK_LOG_LEVEL"] = "debug"
	environment["PENSTOCK_WORKERS"] = "" // templates leave unused variables empty
	environment["PENSTOCK_PPROF"] = "true"
	environment["PENSTOCK_TAGS"] = "a,c"
	var c service
	if o := run(t, &c, environment, "--session-buckets=8", "--log-level", "warn", "--events-database", "shop"); o.err != nil {
		t.Fatalf("%v: %s", o.err, o.stderr)
	}
	if string(c.MongoDB.URI) != environment["MONGODB_URI"] || c.Bus.Topic != "events" || c.MongoDB.EventsDatabase != "shop" || c.MongoDB.EventsCollection != "events" ||
		c.Lease.Duration != time.Minute || c.Lease.Renew != 10*time.Second || c.Logging.LogLevel != "warn" || c.Logging.LogFormat != "json" ||
		c.Buckets != 8 || c.Workers != 4 || c.Ratio != 0.5 || !c.Pprof || len(c.Tags) != 2 || c.Fields.AggregateID != "aggregateId" {
		t.Errorf("got %+v", c)
	}
	if o := run(t, &c, environment, "--no-pprof"); o.err != nil || c.Pprof {
		t.Errorf("--no-pprof: %v, %t", o.err, c.Pprof)
	}
}

// The problems of the configuration are reported together, each on a line.
func TestParseReportsTheProblemsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	o := run(t, &service{}, map[string]string{
		"AZURE_SERVICEBUS_CONNECTION_STRING": "s3cret",
		"AZURE_SERVICEBUS_NAMESPACE":         "n",
		"PENSTOCK_FIELD_PAYLOAD":             "eventId",
		"PENSTOCK_LEASE_DURATION":            "5s",
		"HTTPS_PROXY":                        "user:s3cret@proxy:port",
	})
	got := lines(t, o)
	want := []string{
		`HTTPS_PROXY is not the URL of a proxy: use one such as http://proxy:3128`,
		`MONGODB_URI is not set: set it to`,
		`AZURE_SERVICEBUS_NAMESPACE is set beside AZURE_SERVICEBUS_CONNECTION_STRING: unset one of them`,
		`AZURE_SERVICEBUS_CONNECTION_STRING is not a connection string (`,
		`AZURE_SERVICEBUS_TOPIC_NAME is not set: set it to the name of the topic`,
		`PENSTOCK_FIELD_PAYLOAD is "eventId", which is also PENSTOCK_FIELD_EVENT_ID: give each its own field`,
		`PENSTOCK_LEASE_RENEW_DEADLINE is 10s, not below PENSTOCK_LEASE_DURATION: choose a shorter one`,
	}
	if len(got) != len(want) || strings.Contains(o.stderr, "s3cret") ||
		!strings.HasPrefix(o.stderr, "publisher: 7 problems in the configuration:\n") || !strings.HasSuffix(o.stderr, "publisher --help explains every setting.\n") {
		t.Fatalf("got %s", o.stderr)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got %s, want %s", got[i], want[i])
		}
	}
}

// kong's own problem is reported alone, with the variable.
func TestParseReportsAWrongValue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		environment map[string]string
		args        []string
		want        string
	}{
		"duration":               {map[string]string{"PENSTOCK_LEASE_DURATION": "15"}, nil, `PENSTOCK_LEASE_DURATION (--lease-duration: expected duration but got "15"`},
		"flag":                   {nil, []string{"--session-buckets=many"}, `PENSTOCK_SESSION_BUCKETS (--session-buckets: expected a valid 64 bit int but got "many")`},
		"word":                   {map[string]string{"PENSTOCK_LOG_LEVEL": "loud"}, nil, `PENSTOCK_LOG_LEVEL (--log-level must be one of "trace","debug","info","warn","error" but got "loud")`},
		"list":                   {map[string]string{"PENSTOCK_TAGS": "a,z"}, nil, `PENSTOCK_TAGS (--tags must be one of "a","b","c" but got "z")`},
		"unknown flag":           {nil, []string{"--evnts-database=x"}, `unknown flag --evnts-database, did you mean "--events-database"?`},
		"no value":               {nil, []string{"--state-database"}, `PENSTOCK_STATE_DATABASE (--state-database: expected string value but got "EOL" (<EOL>))`},
		"a secret in a number":   {map[string]string{"PENSTOCK_WORKERS": "mongodb://u:s3cret@h"}, nil, `PENSTOCK_WORKERS (--workers: expected a valid 64 bit uint but got ***)`},
		"a secret in a flag":     {nil, []string{"--log-level=Endpoint=sb://h/;SharedAccessKey=s3cret"}, `PENSTOCK_LOG_LEVEL (--log-level must be one of "trace","debug","info","warn","error" but got ***)`},
		"a secret in a name":     {map[string]string{"PENSTOCK_IDENTITY": "u:s3cret@h"}, nil, `PENSTOCK_IDENTITY is ***, which looks like a connection string`},
		"a file beside a secret": {map[string]string{"MONGODB_URI_FILE": "/s3cret"}, nil, `MONGODB_URI_FILE is set beside MONGODB_URI: unset one of them`},
	} {
		environment := complete()
		maps.Copy(environment, c.environment)
		if got := lines(t, run(t, &service{}, environment, c.args...)); len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestParseHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"-h"}} {
		o := run(t, &service{}, map[string]string{"PENSTOCK_LEASE_DURATION": "nonsense"}, args...)
		if !errors.Is(o.err, cli.ErrHelp) || o.stderr != "" {
			t.Fatalf("%q: %v, %q", args, o.err, o.stderr)
		}
		text := strings.Join(strings.Fields(o.stdout), " ")
		for _, want := range []string{
			"Usage: publisher [flags] Publishes events.",
			"--version Print the version.",
			"MongoDB --mongodb-uri=URI",
			"Service Bus --servicebus-connection-string=STRING",
			"--lease-duration=15s How long a lease lasts. [default 15s, $PENSTOCK_LEASE_DURATION]",
			"--[no-]pprof Serve pprof. [$PENSTOCK_PPROF]",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q: the help lacks %q:\n%s", args, want, o.stdout)
			}
		}
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	if o := run(t, &service{}, nil, "--version"); !errors.Is(o.err, cli.ErrHelp) || o.stdout != "publisher "+cli.Version()+"\n" || o.stderr != "" {
		t.Errorf("got %+v", o)
	}
}

func TestParseCommands(t *testing.T) {
	t.Parallel()
	var c tool
	if o := run(t, &c, map[string]string{"URI": "x"}); o.err != nil || o.command != "run" || c.URI != "x" {
		t.Errorf("default: %+v", o)
	}
	if o := run(t, &c, map[string]string{"LIMIT": "3"}, "do", "retry", "users"); o.err != nil || o.command != "do retry" || c.Do.Retry.Limit != 3 || c.Do.Retry.Projection != "users" {
		t.Errorf("retry: %+v %+v", o, c)
	}
	if o := run(t, &c, nil, "do", "retry", "users", "--limit", "5", "--uri=y"); o.err != nil || c.Do.Retry.Limit != 5 || c.URI != "y" {
		t.Errorf("flags: %+v %+v", o, c)
	}
	for text, want := range map[string]time.Time{
		"2026-03-01": time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), "2026-03-01T12:00:00Z": time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	} {
		if o := run(t, &c, nil, "do", "walk", "--since", text); o.err != nil || !c.Do.Walk.Since.Equal(want) {
			t.Errorf("%s: %+v %v", text, o, c.Do.Walk.Since)
		}
	}
	for name, c := range map[string]struct {
		environment map[string]string
		args        []string
		want        string
	}{
		"no subcommand":           {nil, []string{"do"}, `expected one of "retry", "walk"`},
		"unknown command":         {nil, []string{"don't"}, `unexpected argument don't`},
		"no argument":             {nil, []string{"do", "retry", "--limit=1"}, `expected "<projection>"`},
		"no flag":                 {nil, []string{"do", "retry", "p"}, `missing flags: --limit=INT`},
		"command validates":       {map[string]string{"LIMIT": "11"}, []string{"do", "retry", "p"}, "do retry: LIMIT is above 10: lower it"},
		"extra argument":          {nil, []string{"do", "walk", "x"}, `unexpected argument x`},
		"empty argument":          {map[string]string{"LIMIT": "1"}, []string{"do", "retry", ""}, "<projection> is empty: give it a value"},
		"empty flag":              {nil, []string{"do", "walk", "--of="}, "--of is empty: give it a value, or leave it out"},
		"wrong time":              {nil, []string{"do", "walk", "--since=1 March"}, `--since: "1 March" is not a time: use an RFC 3339 time such as 2026-03-01T12:00:00Z, or a date such as 2026-03-01`},
		"empty value":             {nil, []string{"do", "walk", "--named", ""}, "--named is empty: give it a value, or leave it out"},
		"flag of another command": {nil, []string{"do", "retry", "p", "--limit=5", "--depth=1"}, `unknown flag --depth`},
	} {
		if got := lines(t, run(t, &tool{}, c.environment, c.args...)); len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	o := run(t, &tool{}, nil, "do", "retry", "--help")
	if !errors.Is(o.err, cli.ErrHelp) || !strings.Contains(o.stdout, "Usage: publisher do retry") || !strings.Contains(o.stdout, "--limit=INT") {
		t.Errorf("help of a command: %+v", o)
	}
	if strings.Contains(o.stdout, "--uri") || !strings.Contains(o.stdout, `see "publisher --help"`) {
		t.Errorf("help of a command shows the configuration: %s", o.stdout)
	}
	if o := run(t, &tool{}, nil, "--help"); !strings.Contains(strings.Join(strings.Fields(o.stdout), " "), "Every command exits with status 0 if all went well, with status 1 if") {
		t.Errorf("the help has no exit codes: %s", o.stdout)
	}
	for _, args := range [][]string{{"--help"}, {"run", "--help"}} {
		if o := run(t, &tool{}, nil, args...); !strings.Contains(o.stdout, "--uri") {
			t.Errorf("help of the service hides its configuration: %s", o.stdout)
		}
	}
}

// For a configuration with commands, only the needs of the chosen command are checked.
func TestParseChecksWhatTheCommandNeeds(t *testing.T) {
	t.Parallel()
	if o := run(t, &selective{}, nil, "list"); o.err != nil || o.command != "list" {
		t.Errorf("list: %+v", o)
	}
	if got := lines(t, run(t, &selective{}, nil)); len(got) != 1 || got[0] != "URI is not set: set it" {
		t.Errorf("run: %q", got)
	}
}

// Commands may have flags with the same name and different types.
func TestParseCommandsWithFlagsOfOneName(t *testing.T) {
	t.Parallel()
	var c struct {
		A struct {
			Depth bool `help:"Deep."`
		} `cmd:"" help:"A."`
		B struct {
			Depth int `help:"How deep."`
		} `cmd:"" help:"B."`
	}
	if o := run(t, &c, nil, "b", "--depth", "3"); o.err != nil || c.B.Depth != 3 {
		t.Errorf("%+v: %+v", o, c)
	}
}

func TestParseRefusesDeclaration(t *testing.T) {
	t.Parallel()
	o := run(t, &struct {
		C chan int
	}{}, nil)
	if o.err == nil || errors.Is(o.err, cli.ErrUsage) || errors.Is(o.err, cli.ErrHelp) {
		t.Errorf("got %v", o.err)
	}
}

// Whatever the arguments and the environment are, Parse returns a result or problems, and
// does not panic.
func TestParseAnything(t *testing.T) {
	t.Parallel()
	token := rapid.OneOf(
		rapid.SampledFrom([]string{"--help", "-h", "--version", "--", "-", "--lease-duration", "--lease-duration=1s", "--pprof", "--no-pprof", "--no-pprof=true", "--pprof=maybe", "--tags=a", "--workers", "-1", "x", "--", "--=", "--x=", "-x"}),
		rapid.String(),
	)
	rapid.Check(t, func(rt *rapid.T) {
		environment := rapid.MapOf(rapid.SampledFrom([]string{"MONGODB_URI", "PENSTOCK_WORKERS", "PENSTOCK_PPROF", "PENSTOCK_TAGS", "PENSTOCK_LEASE_DURATION", "PENSTOCK_LOG_LEVEL", "AZURE_SERVICEBUS_CONNECTION_STRING"}), rapid.String()).Draw(rt, "environment")
		o := run(t, &service{}, environment, rapid.SliceOfN(token, 0, 6).Draw(rt, "args")...)
		switch {
		case o.err == nil, errors.Is(o.err, cli.ErrHelp):
			if o.stderr != "" {
				rt.Fatalf("%v with problems: %s", o.err, o.stderr)
			}
		case errors.Is(o.err, cli.ErrUsage):
			if !strings.Contains(o.stderr, "  - ") || o.stdout != "" {
				rt.Fatalf("no problems: %q, %q", o.stdout, o.stderr)
			}
		default:
			rt.Fatalf("got %v", o.err)
		}
	})
}
