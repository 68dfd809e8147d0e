package cli_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// settings has a value of each kind that the programs use.
type settings struct {
	Host   string   `env:"HOST" default:"here" help:"Where."`
	Port   int      `env:"PORT" default:"80" help:"Port."`
	Ratio  float64  `env:"RATIO" help:"A ratio."`
	Rate   *int     `env:"RATE" help:"A rate; nil if it is not set."`
	Fast   bool     `env:"FAST" negatable:"" help:"Be fast."`
	Level  string   `env:"LEVEL" enum:"low,high" default:"low" help:"Level."`
	Secret int      `env:"SECRET" secret:"" help:"A secret."`
	Either int      `env:"FIRST,SECOND" help:"One of two variables."`
	Run    struct{} `cmd:"" default:"1" help:"Run."`
	Count  struct {
		Most  int      `env:"MOST" help:"The most."`
		Of    string   `help:"Only one; otherwise all."`
		Named []string `help:"Only these; otherwise all."`
		Parts []int    `arg:"" help:"The parts."`
	} `cmd:"" help:"Count."`
}

// Validate shows that wrong values have been replaced by their defaults.
func (s *settings) Validate() error {
	if s.Port < 80 {
		return fmt.Errorf("HOST has the port %d: use 80 or more", s.Port)
	}
	return nil
}

// A mistake hides no other one, whatever precedes it.
func TestParseReportsEachMistakeOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		environment map[string]string
		args        []string
		want        []string
	}{
		"before and behind an unknown flag": {
			nil, []string{"--port=x", "--prt=1", "--ratio=y", "--nothing"},
			[]string{`--port (PORT) is "x", not a whole`, `--ratio (RATIO) is "y", not a number`, "--prt is unknown: did you mean --port?", `--nothing is unknown: see "publisher --help"`},
		},
		"a number that can be unset":      {map[string]string{"RATE": "0.5"}, nil, []string{`RATE (--rate) is "0.5", not a whole number of 64 bits: write digits only`}},
		"an argument":                     {nil, []string{"count", "1", "two"}, []string{`<parts> is "1", `}},
		"of another command":              {map[string]string{"MOST": "x"}, nil, nil},
		"of the command":                  {map[string]string{"MOST": "x"}, []string{"count", "1"}, []string{`MOST (--most) is "x", not a whole`}},
		"a variable that a flag replaces": {map[string]string{"PORT": "x"}, []string{"--port=81"}, nil},
		"a flag that replaces a variable": {map[string]string{"PORT": "81"}, []string{"--port=x"}, []string{`--port (PORT) is "x", not a whole`}},
		"the second variable":             {map[string]string{"FIRST": "", "SECOND": "x"}, nil, []string{`SECOND (--either) is "x", not a whole`}},
		"no value, then a flag":           {nil, []string{"--port", "--level=none"}, []string{"--port (PORT) lacks its value: write --port=N", `--level (LEVEL) is "none", unknown: use one of low, high`}},
		"no value, then a short flag":     {nil, []string{"--port", "-1"}, []string{"--port (PORT) lacks its value: write --port=N", `unknown flag -1`}},
		"negated with a value":            {nil, []string{"--no-fast=maybe", "--port=x"}, []string{"bool value must be", `--port (PORT) is "x", not a whole`}},
		"empty flag":                      {nil, []string{"--port="}, []string{`--port (PORT) is "", not a whole`}},
		"empty flag of a command":         {nil, []string{"count", "--of=", "1"}, []string{"--of is empty: give it a value, or leave it out"}},
		"empty value of a command's flag": {nil, []string{"count", "--of", "", "--named", "", "1"}, []string{"--of is empty: ", "--named is empty: "}},
		"empty argument":                  {nil, []string{"count", ""}, []string{"<parts> is empty: give it a value"}},
		"empty variable":                  {map[string]string{"PORT": "", "LEVEL": "", "FAST": ""}, nil, nil},
		"secret in a flag":                {nil, []string{"--secret=hidden"}, []string{"--secret (SECRET) is ***, not a whole"}},
		"secret in a variable":            {map[string]string{"SECRET": "hidden"}, nil, []string{"SECRET (--secret) is ***, not a whole"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := run(t, &settings{}, c.environment, c.args...)
			if len(c.want) == 0 {
				if o.err != nil {
					t.Errorf("got %v: %s", o.err, o.stderr)
				}
				return
			}
			got := lines(t, o)
			for _, want := range c.want {
				if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) }) {
					t.Errorf("no line %q", want)
				}
			}
			if len(got) != len(c.want) || strings.Contains(o.stderr, "hidden") {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A setting has the same effect as a flag and as a variable.
func TestFlagsAndVariablesHaveTheSameEffect(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom([]string{"host", "port", "ratio", "level", "secret"}).Draw(rt, "name")
		text := rapid.OneOf(
			rapid.StringMatching(`[a-z0-9.-]{1,5}`),
			rapid.SampledFrom([]string{"1", "-1", "0.5", "low", "high", "1e400", "99999999999999999999"}),
		).Draw(rt, "text")
		var byFlag, byVariable settings
		flag := run(t, &byFlag, nil, "--"+name+"="+text)
		variable := run(t, &byVariable, map[string]string{strings.ToUpper(name): text})
		if fmt.Sprint(byFlag) != fmt.Sprint(byVariable) || !errors.Is(variable.err, flag.err) {
			rt.Fatalf("flag: %+v, %v; variable: %+v, %v", byFlag, flag.err, byVariable, variable.err)
		}
		if got, want := len(strings.Split(variable.stderr, "\n")), len(strings.Split(flag.stderr, "\n")); got != want {
			rt.Fatalf("flag: %s; variable: %s", flag.stderr, variable.stderr)
		}
	})
}
