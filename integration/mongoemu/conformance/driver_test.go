package main

import (
	"regexp"
	"strings"
	"testing"
)

func TestDriverReportsOutcomes(t *testing.T) {
	t.Parallel()
	passes := `echo '{"Action":"pass","Test":"one"}'; `
	fails := `echo '{"Action":"output","Test":"two","Output":"Error: no"}'; echo '{"Action":"fail","Test":"two"}'; exit 1`
	says := func(line string) [][]string { return [][]string{{"true"}, {"sh", "-c", line}} }
	for name, tt := range map[string]struct {
		driver   driver
		out, err string
	}{
		"all pass":       {driver{name: "node", want: 1, commands: says(passes)}, "node 1 scenarios: 1 passed (wanted: 1), 0 did not", ""},
		"one fails":      {driver{name: "node", want: 1, commands: says(passes + fails)}, " fail two Error: no", "1 of 2 scenarios of node passed"},
		"one is missing": {driver{name: "node", want: 2, commands: says(passes)}, "1 passed (wanted: 2)", "1 of 1 scenarios of node passed, want 2"},
		"nothing runs":   {driver{name: "node", commands: says("echo broken >&2; exit 3")}, "", "broken"},
		"npm fails":      {driver{name: "node", want: 1, commands: [][]string{{"sh", "-c", "echo offline >&2; exit 1"}, {"sh", "-c", passes}}}, "", "offline"},
		"not installed":  {driver{name: "node", want: 1, tools: []string{"no-such-tool"}, remedy: "get it"}, "node not run: no-such-tool is not installed: get it", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := tt.driver.check(t.Context(), t.TempDir(), "mongodb://", nil, false, &out)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want one that says %q", err, tt.err)
			}
			if printed := regexp.MustCompile(` +`).ReplaceAllString(out.String(), " "); !strings.Contains(printed, tt.out) {
				t.Errorf("%q is not in:\n%s", tt.out, printed)
			}
		})
	}
}
