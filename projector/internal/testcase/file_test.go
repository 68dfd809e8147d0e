package testcase_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
	"github.com/penstock-cdc/penstock/projector/internal/testcase"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func known(t *testing.T) []*projection.Projection {
	t.Helper()
	return projectiontest.All(t, `
projections:
  - {name: users, collection: users, aggregateType: User, on: {A: {set: {n: "1"}}, Both: {set: {n: "1"}}}}
  - {name: orders, collection: orders, aggregateType: Order, on: {B: {set: {n: "1"}}, Both: {set: {n: "1"}}}}
`)
}

// TestProblems checks the messages for wrong test files against golden files.
func TestProblems(t *testing.T) {
	t.Parallel()
	inputs, err := filepath.Glob("testdata/problems/*.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	for _, input := range inputs {
		t.Run(filepath.Base(input), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			file := testcase.Parse(filepath.Base(input), data, event.DefaultFields())
			file.Resolve(known(t), []string{"expression"})
			var got strings.Builder
			for _, p := range file.Problems {
				fmt.Fprintln(&got, p)
			}
			golden := strings.TrimSuffix(input, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got.String(), want)
			}
		})
	}
}

// TestDefaults checks the defaults of an event with few fields.
func TestDefaults(t *testing.T) {
	t.Parallel()
	file := testcase.Parse("some/folder/a_test.yaml", []byte(`
projections: [../users.yaml, /orders]
tests:
  - name: defaults
    aggregateId: {$oid: 65f000000000000000000001}
    given:
      - eventType: A
      - {eventType: B, aggregateId: other}
      - {eventType: Both, metadata: {by: ada}}
      - {eventType: Both, aggregateId: third, aggregateType: Special, timestamp: 2026-05-01T00:00:00Z}
      - {eventType: A, aggregateId: third}
    expect: {}
`), event.DefaultFields())
	file.Resolve(known(t), nil)
	if len(file.Problems) > 0 {
		t.Fatal(file.Problems)
	}
	if want := []string{"some/users.yaml", "/orders"}; !slices.Equal(file.Projections, want) {
		t.Errorf("projections %v, want %v", file.Projections, want)
	}
	want := []string{
		`{"aggregateId": {"$oid":"65f000000000000000000001"},"aggregateType": "User","eventId": {"$numberLong":"1"},"eventType": "A","timestamp": {"$date":{"$numberLong":"1767225600000"}}}`,
		`{"aggregateId": "other","aggregateType": "Order","eventId": {"$numberLong":"1"},"eventType": "B","timestamp": {"$date":{"$numberLong":"1767225601000"}}}`,
		`{"aggregateId": "other","aggregateType": "Order","eventId": {"$numberLong":"2"},"eventType": "Both","timestamp": {"$date":{"$numberLong":"1767225602000"}},"metadata": {"by": "ada"}}`,
		`{"aggregateId": "third","aggregateType": "Special","eventId": {"$numberLong":"1"},"eventType": "Both","timestamp": {"$date":{"$numberLong":"1777593600000"}}}`,
		`{"aggregateId": "third","aggregateType": "Special","eventId": {"$numberLong":"2"},"eventType": "A","timestamp": {"$date":{"$numberLong":"1777593601000"}}}`,
	}
	for i, ev := range file.Cases[0].Steps[0].Given {
		if got := ev.Document().String(); got != want[i] {
			t.Errorf("event %d is\n%s, want\n%s", i, got, want[i])
		}
	}
}

// TestFind checks which files paths select.
func TestFind(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"a_test.yaml", "a.yaml", "sub/b_test.yml", "sub/deep/c_test.yaml", ".git/d_test.yaml", "_old/e_test.yaml", "sub/.f_test.yaml", "other/g.yaml"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		paths []string
		want  string
	}{
		{[]string{"/"}, "/a_test.yaml"},
		{[]string{"/..."}, "/a_test.yaml /sub/b_test.yml /sub/deep/c_test.yaml"},
		{[]string{"/…"}, "/a_test.yaml /sub/b_test.yml /sub/deep/c_test.yaml"},
		{[]string{"/sub/...", "/sub/b_test.yml", "/a.yaml"}, "/sub/b_test.yml /sub/deep/c_test.yaml /a.yaml"},
		{[]string{"/other"}, "there is no *_test.yaml"},
		{[]string{"/missing_test.yaml"}, "/missing_test.yaml: no such file or directory"},
	} {
		paths := make([]string, len(test.paths))
		for i, p := range test.paths {
			paths[i] = root + p
		}
		found, err := testcase.Find(paths)
		got := strings.ReplaceAll(strings.Join(found, " "), root, "")
		if err != nil {
			got = err.Error()
		}
		if got != test.want && (err == nil || !strings.Contains(got, test.want)) {
			t.Errorf("%v: %s, want %s", test.paths, got, test.want)
		}
	}
}
