package cli_test

import (
	"bytes"
	"errors"
	"slices"
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
	command, err := cli.ParseCommand(config, cli.Info{Name: "publisher", Description: "Publishes events."}, args, lookup, &stdout, &stderr)
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
	if c.MongoDB.URI != environment["MONGODB_URI"] || c.Bus.Topic != "events" || c.MongoDB.EventsDatabase != "shop" || c.MongoDB.EventsCollection != "events" ||
		c.Lease.Duration != time.Minute || c.Lease.Renew != 10*time.Second || c.Logging.LogLevel != "warn" || c.Logging.LogFormat != "json" ||
		c.Buckets != 8 || c.Workers != 4 || c.Ratio != 0.5 || !c.Pprof || len(c.Tags) != 2 || c.Fields.AggregateID != "aggregateId" {
		t.Errorf("got %+v", c)
	}
	if o := run(t, &c, environment, "--no-pprof"); o.err != nil || c.Pprof {
		t.Errorf("--no-pprof: %v, %t", o.err, c.Pprof)
	}
}

// All problems are reported together, each on a line that names the variable and the flag.
func TestParseReportsEverything(t *testing.T) {
	t.Parallel()
	got := lines(t, run(t, &service{}, map[string]string{
		"AZURE_SERVICEBUS_CONNECTION_STRING": "s3cret",
		"AZURE_SERVICEBUS_NAMESPACE":         "n",
		"PENSTOCK_LEASE_DURATION":            "15",
		"PENSTOCK_LOG_LEVEL":                 "loud",
		"PENSTOCK_WORKERS":                   "-1",
		"PENSTOCK_RATIO":                     "half",
		"PENSTOCK_PPROF":                     "perhaps",
		"PENSTOCK_TAGS":                      "a,z",
		"PENSTOCK_FIELD_PAYLOAD":             "eventId",
		"PENSTOCK_IDENTITY":                  "nobody",
	}, "--session-buckets=many", "--evnts-database=x", "--whatever", "--state-database"))
	want := []string{
		`AZURE_SERVICEBUS_CONNECTION_STRING (--servicebus-connection-string) is not a connection string (`,
		`AZURE_SERVICEBUS_NAMESPACE (--servicebus-namespace) is set beside AZURE_SERVICEBUS_CONNECTION_STRING: unset one of them`,
		`AZURE_SERVICEBUS_TOPIC_NAME (--servicebus-topic) is not set: set it to the name of the topic`,
		`MONGODB_URI (--mongodb-uri) is not set: set it to`,
		`PENSTOCK_LEASE_DURATION (--lease-duration) is "15", not a duration: write a number with its unit, such as 500ms, 15s or 2m`,
		`PENSTOCK_LOG_LEVEL (--log-level) is "loud", unknown: use one of trace, debug, info, warn, error`,
		`PENSTOCK_WORKERS (--workers) is "-1", not a whole number of 64 bits from 0: write digits only`,
		`PENSTOCK_RATIO (--ratio) is "half", not a number`,
		`PENSTOCK_PPROF (--pprof) is "perhaps", neither true nor false: use one of them`,
		`PENSTOCK_TAGS (--tags) is "a,z", unknown: use one of a, b, c`,
		`PENSTOCK_FIELD_PAYLOAD (--field-payload)="eventId" is also PENSTOCK_FIELD_EVENT_ID: give each its own field`,
		`--session-buckets (PENSTOCK_SESSION_BUCKETS) is "many", not a whole number of 64 bits: write digits only`,
		`--evnts-database is unknown: did you mean --events-database?`,
		`--whatever is unknown: see "publisher --help"`,
		`--state-database (PENSTOCK_STATE_DATABASE) lacks its value: write --state-database=NAME`,
		`nobody leads:; choose a name`,
	}
	for _, w := range want {
		found := false
		for _, g := range got {
			found = found || strings.HasPrefix(g, w)
		}
		if !found {
			t.Errorf("no line %q", w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d problems, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for _, g := range got {
		if strings.Contains(g, "s3cret") {
			t.Errorf("%q shows a secret", g)
		}
	}
}

// If a variable is malformed, Validate sees its default, so Validate's problems about it
// are left out.
func TestParseReportsAVariableOnce(t *testing.T) {
	t.Parallel()
	environment := complete()
	environment["PENSTOCK_LEASE_RENEW_DEADLINE"] = "soon"
	environment["PENSTOCK_LEASE_DURATION"] = "5s"
	got := lines(t, run(t, &service{}, environment))
	if len(got) != 1 || !strings.HasPrefix(got[0], `PENSTOCK_LEASE_RENEW_DEADLINE (--lease-renew-deadline) is "soon"`) {
		t.Errorf("got %q", got)
	}
	delete(environment, "PENSTOCK_LEASE_RENEW_DEADLINE")
	got = lines(t, run(t, &service{}, environment))
	if len(got) != 1 || got[0] != `PENSTOCK_LEASE_RENEW_DEADLINE (--lease-renew-deadline) is 10s, not below PENSTOCK_LEASE_DURATION: choose a shorter one` {
		t.Errorf("got %q", got)
	}
}

func TestParseSummary(t *testing.T) {
	t.Parallel()
	environment := complete()
	environment["PENSTOCK_WORKERS"] = "x"
	if o := run(t, &service{}, environment); !strings.HasPrefix(o.stderr, "publisher: 1 problem in the configuration:\n") || !strings.HasSuffix(o.stderr, "publisher --help explains every setting.\n") {
		t.Errorf("got %q", o.stderr)
	}
}

func TestParseNeverShowsSecrets(t *testing.T) {
	t.Parallel()
	environment := complete()
	environment["MONGODB_URI"] = "mongodb://u:s3cret@:::?"
	o := run(t, &service{}, environment)
	if !errors.Is(o.err, cli.ErrUsage) || strings.Contains(o.stderr, "s3cret") {
		t.Errorf("got %v, %s", o.err, o.stderr)
	}
	if o := run(t, &service{}, complete(), "--help"); strings.Contains(o.stdout, "s3cret") {
		t.Error("the help shows a secret")
	}
}

func TestParseHidesMalformedSecrets(t *testing.T) {
	t.Parallel()
	got := lines(t, run(t, &struct {
		Pin int `env:"PIN" secret:"" help:"A secret number."`
	}{}, map[string]string{"PIN": "s3cret"}))
	if len(got) != 1 || got[0] != "PIN (--pin) is ***, not a whole number of 64 bits: write digits only" {
		t.Errorf("got %q", got)
	}
}

func TestParseHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"-h"}, {"--nonsense", "--help"}, {"--session-buckets=x", "-h"}} {
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
			"--lease-duration=DURATION How long a lease lasts. [default 15s, $PENSTOCK_LEASE_DURATION]",
			"--session-buckets=N Number of sessions. [default 64, $PENSTOCK_SESSION_BUCKETS]",
			"--ratio=NUMBER",
			"--identity=VALUE Name of this process. [$PENSTOCK_IDENTITY]",
			"--[no-]pprof Serve pprof. [$PENSTOCK_PPROF]",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q: the help lacks %q:\n%s", args, want, o.stdout)
			}
		}
		for line := range strings.Lines(o.stdout) {
			if len(line) > 111 {
				t.Errorf("a line of %d characters: %s", len(line), line)
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
	for name, c := range map[string]struct {
		environment map[string]string
		args        []string
		want        []string
	}{
		"no subcommand":     {nil, []string{"do"}, []string{"a command is missing: use one of retry, walk"}},
		"unknown command":   {nil, []string{"don't"}, []string{`unexpected argument don't`}},
		"no argument":       {nil, []string{"do", "retry"}, []string{"--limit (LIMIT) is not set: Give the most that are tried.", "<projection> is missing: The projection."}},
		"command validates": {map[string]string{"LIMIT": "11"}, []string{"do", "retry", "p"}, []string{"LIMIT (--limit) is above 10: lower it"}},
		"after two dashes":  {map[string]string{"LIMIT": "1"}, []string{"do", "retry", "--", "--help", "x"}, []string{"unexpected argument x"}},
		"extra argument":    {nil, []string{"do", "walk", "x"}, []string{`unexpected argument x: see "publisher do walk --help"`}},
		"malformed time":    {nil, []string{"do", "walk", "--since=yesterday"}, []string{`--since is "yesterday", not a time of RFC 3339: write it with its zone, such as 2026-03-01T00:00:00Z`}},
		"malformed":         {map[string]string{"LIMIT": "x"}, []string{"do", "retry", "p"}, []string{`LIMIT (--limit) is "x", not a whole number of 64 bits: write digits only`}},
	} {
		got := lines(t, run(t, &tool{}, c.environment, c.args...))
		if len(got) != len(c.want) {
			t.Errorf("%s: got %q", name, got)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], c.want[i]) {
				t.Errorf("%s: got %q", name, got)
			}
		}
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"flag before its command": {[]string{"--limit=5", "do", "retry", "p"}, "--limit stands before its command: write it after the command"},
		"flag of a command":       {[]string{"do", "retry", "p", "--limt=5"}, "--limt is unknown: did you mean --limit?"},
		"unknown":                 {[]string{"do", "retry", "p", "--limit=5", "--whatever"}, `--whatever is unknown: see "publisher do retry --help"`},
		"flag of another command": {[]string{"do", "retry", "p", "--limit=5", "--depth=1"}, `--depth is unknown: see "publisher do retry --help"`},
	} {
		if got := lines(t, run(t, &tool{}, nil, c.args...)); !slices.Contains(got, c.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	o := run(t, &tool{}, nil, "do", "retry", "--help")
	if !errors.Is(o.err, cli.ErrHelp) || !strings.Contains(o.stdout, "Usage: publisher do retry") || !strings.Contains(o.stdout, "--limit=N") {
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
func TestParseCommandChecksWhatTheCommandNeeds(t *testing.T) {
	t.Parallel()
	if o := run(t, &selective{}, nil, "list"); o.err != nil || o.command != "list" {
		t.Errorf("list: %+v", o)
	}
	if got := lines(t, run(t, &selective{}, nil)); len(got) != 1 || got[0] != "URI (--uri) is not set: set it" {
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

// A variable that two commands share is reported once.
func TestParseSharedVariable(t *testing.T) {
	t.Parallel()
	type limited struct {
		Limit int `env:"LIMIT" help:"The limit."`
	}
	got := lines(t, run(t, &struct {
		A limited `cmd:"" help:"A."`
		B limited `cmd:"" help:"B."`
	}{}, map[string]string{"LIMIT": "x"}, "a"))
	if len(got) != 1 {
		t.Errorf("got %q", got)
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
	o = run(t, &struct {
		N int `default:"many"`
	}{}, nil)
	if o.err == nil || errors.Is(o.err, cli.ErrUsage) {
		t.Errorf("got %v", o.err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestParseBrokenOutput(t *testing.T) {
	t.Parallel()
	none := func(string) (string, bool) { return "", false }
	if err := cli.Parse(&service{}, cli.Info{Name: "p"}, nil, none, brokenWriter{}, brokenWriter{}); !errors.Is(err, cli.ErrUsage) {
		t.Errorf("problems: %v", err)
	}
	for _, arg := range []string{"--help", "--version"} {
		if err := cli.Parse(&service{}, cli.Info{Name: "p"}, []string{arg}, none, brokenWriter{}, brokenWriter{}); err == nil || errors.Is(err, cli.ErrHelp) {
			t.Errorf("%s: %v", arg, err)
		}
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
