package cli_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

type record struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

func fields(r record) []cli.Field {
	return []cli.Field{{Name: "id", Text: r.ID}, {Name: "error", Text: r.Error}}
}

// A table in a pipe is for grep and for files, so it has all of each cell.
func TestListPrintsATableOrJSON(t *testing.T) {
	t.Parallel()
	records := []record{{"7", "a\nb\x1b[31m"}, {"long", strings.Repeat("x", 200)}, {"8", ""}}
	var table, asJSON bytes.Buffer
	if err := cli.List(&table, cli.Output{}, records, fields); err != nil {
		t.Fatal(err)
	}
	want := "ID    ERROR\n7     a b [31m\nlong  " + strings.Repeat("x", 200) + "\n8     -\n"
	if table.String() != want {
		t.Errorf("table\n%s\nwant\n%s", table.String(), want)
	}
	if err := cli.List(&asJSON, cli.Output{Output: cli.OutputJSON}, records[:1], fields); err != nil {
		t.Fatal(err)
	}
	if want := "[\n  {\n    \"id\": \"7\",\n    \"error\": \"a\\nb\\u001b[31m\"\n  }\n]\n"; asJSON.String() != want {
		t.Errorf("JSON %s, want %s", asJSON.String(), want)
	}
}

func TestListOfNothingIsAnEmptyArray(t *testing.T) {
	t.Parallel()
	var table, asJSON bytes.Buffer
	if err := cli.List(&table, cli.Output{}, nil, fields); err != nil || table.Len() > 0 {
		t.Errorf("table %q, %v", table.String(), err)
	}
	if err := cli.List(&asJSON, cli.Output{Output: cli.OutputJSON}, nil, fields); err != nil || asJSON.String() != "[]\n" {
		t.Errorf("JSON %q, %v", asJSON.String(), err)
	}
}

func TestShowPrintsFieldsInFull(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	long := strings.Repeat("x", 200)
	if err := cli.Show(&text, cli.Output{}, nil, fields(record{"7", long})); err != nil {
		t.Fatal(err)
	}
	if want := "id:     7\nerror:  " + long + "\n"; text.String() != want {
		t.Errorf("got %q", text.String())
	}
	text.Reset()
	if err := cli.Show(&text, cli.Output{}, nil, fields(record{ID: "7"})); err != nil || text.String() != "id:  7\n" {
		t.Errorf("got %q, %v", text.String(), err)
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for d, want := range map[time.Duration]string{-time.Hour: "0s", 40 * time.Second: "40s", 3 * time.Minute: "3m", 30 * time.Hour: "30h", 12 * 24 * time.Hour: "12d"} {
		if got := cli.Age(now, now.Add(-d)); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	if cli.Age(now, time.Time{}) != "" || cli.Time(time.Time{}) != "" || cli.Time(now) != "2026-01-02T03:04:05Z" {
		t.Error("the zero time has a text, or a time has none")
	}
}

// A command prints ids of events. Invisible characters would change how the line is shown.
func TestInvisibleCharactersAreEscaped(t *testing.T) {
	t.Parallel()
	if got := cli.Plain("a\u202eb\u200bc\u2028d\U000e0001é👍"); got != `a\u202eb\u200bc\u2028d\udb40\udc01é👍` {
		t.Errorf("plain: %s", got)
	}
	var out strings.Builder
	if err := cli.PrintJSON(&out, "a\u202eb"); err != nil || out.String() != "\"a\\u202eb\"\n" {
		t.Errorf("JSON: %s%v", out.String(), err)
	}
}
