package main

import (
	"fmt"
	"io"
	"strings"
)

// table has the results of a suite's tests.
type table struct {
	name    string
	kind    string // the name of its kind of tests
	want    int    // how many must pass
	results []*result
	absent  string // why no test was run, which is no failure
	err     error  // why there are no results, or not all
}

func (t *table) counts() (passed, failed, skipped int) {
	for _, r := range t.results {
		switch r.action {
		case "pass":
			passed++
		case "skip":
			skipped++
		default:
			failed++
		}
	}

	return passed, failed, skipped
}

func (t *table) print(out io.Writer, verbose bool) {
	fmt.Fprintf(out, "\n%s\n", t.name)

	for _, r := range t.results {
		word := r.action
		if word == "" {
			word = "none"
		}

		fmt.Fprintf(out, "  %-4s  %-70s %s\n", word, r.name, r.reason)

		if verbose && r.action != "pass" {
			fmt.Fprintln(out, "        | "+strings.ReplaceAll(strings.Join(r.output, ""), "\n", "\n        | "))
		}
	}

	if t.err != nil {
		fmt.Fprintf(out, "  %s\n", t.err)
	}
}

// sum prints how many tests passed and reports whether they are enough. If only some tests
// were selected, all of them must pass.
func (t *table) sum(out io.Writer, some bool) bool {
	if t.absent != "" {
		fmt.Fprintf(out, "%-14s not run: %s\n", t.name, t.absent)

		return true
	}

	passed, failed, skipped := t.counts()
	want := t.want

	if some {
		want = len(t.results)
	}

	fmt.Fprintf(out, "%-14s %3d %s: %3d passed (wanted: %d), %d failed, %d skipped\n",
		t.name, len(t.results), t.kind, passed, want, failed, skipped)

	return t.err == nil && passed >= want
}

// known has the tests that are known to fail, with the reasons.
var known = map[string]string{
	"TestReceiveWithDifferentWaitTime": "takes for granted that 1,000 messages of 1 kB need longer than 20 ms; here they do not",
}

// reason returns in one line why a test did not pass.
func reason(r *result) string {
	if r.action == "pass" {
		return ""
	}

	if why, ok := known[r.name]; ok {
		return why
	}

	// Prefer testify's error, otherwise use the first line with text.
	for i, line := range r.output {
		if _, after, ok := strings.Cut(line, "Error:"); ok {
			words := strings.TrimSpace(after)

			for _, more := range r.output[i+1:] {
				more = strings.TrimSpace(more)
				if more == "" || strings.HasPrefix(more, "Test:") || strings.HasPrefix(more, "Error Trace:") || len(words) > 200 {
					break
				}

				words += " " + more
			}

			return words
		}
	}

	for _, line := range r.output {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			return line
		}
	}

	return ""
}
