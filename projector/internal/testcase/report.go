package testcase

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// Lines returns the failure as text: one line with the message, or one line for each
// difference.
func (f *Failure) Lines() []string {
	subject := f.Subject
	if subject != "" {
		subject += ": "
	}
	if f.Message != "" {
		return []string{subject + f.Message}
	}
	want, got := "expected", "got"
	if f.Again {
		want, got = "in one batch", "event by event"
	}
	lines := make([]string, len(f.Differences))
	for i, d := range f.Differences {
		path := d.Path
		if path != "" {
			path += ": "
		}
		lines[i] = fmt.Sprintf("%s%s%s %s, %s %s", subject, path, want, d.Expected, got, d.Got)
	}
	return lines
}

// where returns where a failure is: the second fold, and the step of a case with several.
func (f *Failure) where() string {
	var parts []string
	if f.Again {
		parts = append(parts, "folded again, the result differs: the projection is no pure function of its events")
	}
	if f.Step > 0 {
		parts = append(parts, fmt.Sprintf("after step %d", f.Step))
	}
	return strings.Join(parts, ", ")
}

// Print writes the report of a failed case.
func (r *Result) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "FAIL %s:%d: %s\n", r.Case.File.Path, r.Case.Line, r.Case.Name)
	b.WriteString(r.text())
	_, err := io.WriteString(w, b.String())
	return err
}

// text returns the lines of all failures and notes. Above the failures of a step or of the
// second fold, it has a line that names it.
func (r *Result) text() string {
	var b strings.Builder
	where := ""
	for i := range r.Failures {
		f := &r.Failures[i]
		if now := f.where(); now != where {
			where = now
			if now != "" {
				fmt.Fprintf(&b, "  %s:\n", now)
			}
		}
		for _, line := range f.Lines() {
			fmt.Fprintf(&b, "    line %d: %s\n", f.Line, line)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "    note: %s\n", note)
	}
	return b.String()
}

// The parts of the JUnit format that CI servers read.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name      string        `xml:"name,attr"`
		ClassName string        `xml:"classname,attr"`
		File      string        `xml:"file,attr"`
		Line      int           `xml:"line,attr"`
		Time      string        `xml:"time,attr"`
		Failure   *junitFailure `xml:"failure,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes results as JUnit XML, with a suite for each file.
func WriteJUnit(w io.Writer, results []Result) error {
	all := junitSuites{Tests: len(results)}
	durations := map[string]time.Duration{}
	for i := range results {
		r := &results[i]
		path := r.Case.File.Path
		if n := len(all.Suites); n == 0 || all.Suites[n-1].Name != path {
			all.Suites = append(all.Suites, junitSuite{Name: path})
		}
		suite := &all.Suites[len(all.Suites)-1]
		c := junitCase{Name: r.Case.Name, ClassName: path, File: path, Line: r.Case.Line, Time: seconds(r.Duration)}
		if len(r.Failures) > 0 {
			c.Failure = &junitFailure{Message: r.Failures[0].Lines()[0], Text: r.text()}
			suite.Failures++
			all.Failures++
		}
		suite.Tests++
		durations[path] += r.Duration
		suite.Time = seconds(durations[path])
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
