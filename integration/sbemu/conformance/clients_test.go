package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
)

func TestClients(t *testing.T) {
	t.Parallel()

	installed := func(context.Context) string { return "" }
	says := func(line string) [][]string { return [][]string{{"true"}, {"sh", "-c", line}} }
	passes := `echo '{"Action":"pass","Test":"one"}'; `
	fails := `echo '{"Action":"output","Test":"two","Output":"Error: no"}'; echo '{"Action":"fail","Test":"two"}'; exit 1`

	for _, test := range []struct {
		name   string
		client client
		enough bool
		lines  []string
	}{
		{
			"enough pass", client{name: "javascript", want: 1, needs: installed, commands: says(passes + fails)}, true,
			[]string{" pass one", " fail two no", "javascript 2 scenarios: 1 passed (wanted: 1), 1 failed, 0 skipped"},
		},
		{
			"too few pass", client{name: "javascript", want: 2, needs: installed, commands: says(passes + fails)}, false,
			[]string{"javascript 2 scenarios: 1 passed (wanted: 2), 1 failed, 0 skipped"},
		},
		{
			"nothing runs", client{name: "python", needs: installed, commands: says("echo broken >&2; exit 3")}, false,
			[]string{"for python: exit status 3", "broken", "no scenario of python has run"},
		},
		{
			"the SDK is not installed", client{name: "python", want: 1, needs: func(context.Context) string { return "install it" }}, true,
			[]string{"python not run: install it"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			var out strings.Builder
			if enough := runSuites(t.Context(), nil, []client{test.client}, t.TempDir()+"/module", nil, options{}, &out); enough != test.enough {
				t.Errorf("enough: %t, want %t", enough, test.enough)
			}

			printed := regexp.MustCompile(` +`).ReplaceAllString(out.String(), " ")
			for _, line := range test.lines {
				if !strings.Contains(printed, line) {
					t.Errorf("%q is not in the table:\n%s", line, printed)
				}
			}
		})
	}
}
