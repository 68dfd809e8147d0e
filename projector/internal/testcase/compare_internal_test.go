package testcase

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/testkit"
)

// TestDifferences checks which values are different, also if further fields count.
func TestDifferences(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		want, got     string
		subset, exact string
	}{
		{`{"a":1}`, `{"a":1}`, "", ""},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, "", ""},
		{`{"a":1}`, `{"a":1,"b":2}`, "", "b nothing 2"},
		{`{"a":1}`, `{"a":2}`, "a 1 2", "a 1 2"},
		{`{"a":{"$numberInt":"1"}}`, `{"a":{"$numberLong":"1"}}`, "", ""},
		{`{"a":40.2}`, `{"a":{"$numberDecimal":"40.20"}}`, "", ""},
		{`{"a":40}`, `{"a":40.0}`, "", ""},
		{`{"a":0.1}`, `{"a":{"$numberDecimal":"0.10"}}`, "", ""},
		{`{"a":{"$numberDouble":"NaN"}}`, `{"a":{"$numberDecimal":"NaN"}}`, "", ""},
		{`{"a":"40"}`, `{"a":40}`, `a "40" (string) 40 (int)`, `a "40" (string) 40 (int)`},
		{`{"a":null}`, `{}`, "", ""},
		{`{"a":null}`, `{"a":1}`, "a null (null) 1 (int)", "a null (null) 1 (int)"},
		{`{"a":{"b":[1,{"c":2}]}}`, `{"a":{"b":[1,{"c":3,"d":4}]}}`, "a.b[1].c 2 3", "a.b[1].c 2 3, a.b[1].d nothing 4"},
		{`{"a":[1,2]}`, `{"a":[1]}`, "a[1] 2 nothing", "a[1] 2 nothing"},
		{`{"a":[1]}`, `{"a":[1,2]}`, "a[1] nothing 2", "a[1] nothing 2"},
		{`{"a":[1,null]}`, `{"a":[1]}`, "a[1] null nothing", "a[1] null nothing"},
		{`{"a":[1]}`, `{"a":[1,null]}`, "a[1] nothing null", "a[1] nothing null"},
		{`{"a":[null,{"b":null}]}`, `{"a":[null,{}]}`, "", ""},
		{`{"a":{"$date":"2026-01-02T03:04:05.006Z"}}`, `{"a":{"$date":"2026-01-02T03:04:05.007Z"}}`, `a {"$date":"2026-01-02T03:04:05.006Z"} {"$date":"2026-01-02T03:04:05.007Z"}`, `a {"$date":"2026-01-02T03:04:05.006Z"} {"$date":"2026-01-02T03:04:05.007Z"}`},
	} {
		for exact, want := range map[bool]string{false: test.subset, true: test.exact} {
			var lines []string
			for _, d := range differences("", testkit.Value(testkit.FromJSON(test.want)), testkit.Value(testkit.FromJSON(test.got)), exact) {
				lines = append(lines, fmt.Sprint(d.Path, " ", d.Expected, " ", d.Got))
			}
			if got := strings.Join(lines, ", "); got != want {
				t.Errorf("%s and %s, exact %v: %q, want %q", test.want, test.got, exact, got, want)
			}
		}
	}
}
