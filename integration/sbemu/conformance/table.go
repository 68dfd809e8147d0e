package main

import (
	"fmt"
	"strings"
)

// table is what became of a suite's live tests.
type table struct {
	suite   suite
	results []*result
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

func (t *table) print(verbose bool) {
	fmt.Printf("\n%s\n", t.suite.name)

	for _, r := range t.results {
		word := r.action
		if word == "" {
			word = "none"
		}

		fmt.Printf("  %-4s  %-70s %s\n", word, r.name, r.reason)

		if verbose && r.action != "pass" {
			fmt.Println("        | " + strings.ReplaceAll(strings.Join(r.output, ""), "\n", "\n        | "))
		}
	}
}

// known are the reasons of tests that are known not to pass.
var known = map[string]string{
	"TestReceiveWithDifferentWaitTime": "takes for granted that 1,000 messages of 1 kB need longer than 20 ms; here they do not",
}

// reason returns why a test did not pass, in a line.
func reason(r *result) string {
	if r.action == "pass" {
		return ""
	}

	if why, ok := known[r.name]; ok {
		return why
	}

	// What testify says, or else the first line that says anything.
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
