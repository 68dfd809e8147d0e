package main

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/simulation"
	"github.com/penstock-cdc/penstock/integration/simulation/mutations"
	"github.com/penstock-cdc/penstock/integration/simulation/record"
)

const head = `# The record

This page is made by ` + "`make proof`" + `. It says what the [random histories](simulation.md) of this project have shown, run by run, which of the known mutations they find, and which defects were found by what. Everything in it comes from [files](../integration/simulation/record) to which each run adds a line; people have typed only what is said about each defect, why histories failed, and why they are blind to a mutation.

` + "```console" + `
$ make proof SEEDS=1..300        # or FOR=8h: adds a run, and writes this page again
$ make proof MUTATIONS=.         # tries the mutations too, about a minute each
` + "```" + `

`

// page returns the page. trials are in the order in which they were made.
func page(runs []record.Run, trials []record.Mutation) string {
	var b strings.Builder
	b.WriteString(head)
	var sum record.Tally
	for _, r := range runs {
		sum.Add(&r.Tally)
	}
	histories(&b, runs, &sum)
	checks(&b, sum.Histories)
	faults(&b, sum.Faults)
	curve(&b, runs)
	score(&b, trials)
	found(&b)
	return b.String()
}

// table writes a table with its header.
func table(b *strings.Builder, header []string, lines [][]string) {
	line := func(cells []string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }
	line(header)
	line(slices.Repeat([]string{"---"}, len(header)))
	for _, cells := range lines {
		for i := range cells {
			cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
		}
		line(cells)
	}
	b.WriteString("\n")
}

// histories lists the runs, the newest first, and their sum.
func histories(b *strings.Builder, runs []record.Run, sum *record.Tally) {
	b.WriteString("## Histories\n\n")
	failed, different := 0, make(map[uint64]bool)
	var explained strings.Builder
	var lines [][]string
	row := func(first, commit, seeds string, t *record.Tally, failed string) []string {
		return []string{first, commit, seeds, number(t.Histories), fmt.Sprintf("%.1f", t.Virtual.Hours()), number(t.Events), number(t.Requests), number(t.Answers), failed}
	}
	for _, r := range slices.Backward(runs) {
		for seed := r.First; seed <= r.Last; seed++ {
			different[seed] = true
		}
		failed += len(r.Failed)
		failures := number(len(r.Failed))
		if len(r.Failed) > 0 {
			failures += fmt.Sprintf(": %d", r.Failed)
			fmt.Fprintf(&explained, "- `%s` with seed %s: %s\n", r.Commit, strings.ReplaceAll(strings.Trim(fmt.Sprint(r.Failed), "[]"), " ", ", "), cmp.Or(r.Explained, "not explained yet"))
		}
		lines = append(lines, row(r.At.Format(time.DateOnly), "`"+r.Commit+"`", fmt.Sprintf("%d to %d", r.First, r.Last), &r.Tally, failures))
	}
	lines = append(lines, row("all", "", number(len(different))+" different ones", sum, number(failed)))
	table(b, []string{"day", "commit", "seeds", "histories", "virtual hours", "events", "requests to MongoDB", "answers to readers", "failed"}, lines)
	b.WriteString("A plus sign behind a commit says that the code had changes which were not committed yet. Only `make proof` adds a line: runs in which the code was being mended are not here, and what they found is among the [defects](#defects-found).\n\n")
	if explained.Len() > 0 {
		fmt.Fprintf(b, "Why histories failed:\n\n%s\n", explained.String())
	}
}

// id finds the promises in the name of a check.
var id = regexp.MustCompile(`G\d`)

// checks lists the promises, each with the checks that every history must pass.
func checks(b *strings.Builder, histories int) {
	b.WriteString("## Promises\n\n")
	byPromise := make(map[string][]string)
	for _, name := range simulation.Promises() {
		which, what, found := strings.Cut(name, ": ")
		if !found {
			which, what = "Liveness", name
		}
		ids := id.FindAllString(which, -1)
		if ids == nil {
			ids = []string{which}
		}
		for _, promise := range ids {
			byPromise[promise] = append(byPromise[promise], what)
		}
	}
	fmt.Fprintf(b, "Each of the %s histories was checked for all [promises](../ARCHITECTURE.md#what-is-promised) of its commit. Now these are:\n\n", number(histories))
	for _, promise := range slices.Sorted(maps.Keys(byPromise)) {
		fmt.Fprintf(b, "### %s\n\n", promise)
		for _, what := range byPromise[promise] {
			fmt.Fprintf(b, "- %s\n", what)
		}
		b.WriteString("\n")
	}
}

// faults lists how often each kind of fault has struck.
func faults(b *strings.Builder, struck map[string]int) {
	b.WriteString("## Faults\n\n")
	var lines [][]string
	for _, kind := range slices.Sorted(maps.Keys(struck)) {
		lines = append(lines, []string{kind, number(struck[kind])})
	}
	table(b, []string{"fault", "struck"}, lines)
}

// curve shows how many new states the histories of the longest run have found.
func curve(b *strings.Builder, runs []record.Run) {
	longest := runs[0]
	for _, r := range runs {
		if r.Histories >= longest.Histories {
			longest = r
		}
	}
	b.WriteString("## New states\n\n")
	fmt.Fprintf(b, "A state is what a fault meets: its kind, how many publishers and projectors run, whether one leads and what it reads from, the step of each build, whether an aggregate is parked, and whether other faults last. In the longest run, of %s histories, the faults had met this many different ones after:\n\n", number(longest.Histories))
	var lines [][]string
	before := record.Point{}
	for _, p := range longest.States {
		lines = append(lines, []string{number(p.Histories), number(p.States), fmt.Sprintf("%.1f", float64(p.States-before.States)/float64(max(1, p.Histories-before.Histories)))})
		before = p
	}
	table(b, []string{"histories", "states", "new ones a history, since the line above"}, lines)
}

// score lists the mutations: who finds each, and why histories do not.
func score(b *strings.Builder, trials []record.Mutation) {
	tried := make(map[string]record.Mutation)
	for _, m := range trials {
		tried[m.Name] = m
	}
	b.WriteString("## Mutations\n\n")
	var all, byHistories, byTests int
	var lines [][]string
	for _, m := range mutations.Table {
		by, last := "histories", "not on record"
		if m.Blind != "" {
			folder, test, _ := strings.Cut(m.Test, " ")
			by = fmt.Sprintf("`%s` in %s: %s", test, folder, m.Blind)
		}
		if trial, ok := tried[m.Name]; ok {
			all++
			result := "not found"
			switch {
			case trial.Test != "":
				byTests++
				result = "found"
			case trial.Seed > 0:
				byHistories++
				result = fmt.Sprintf("found by seed %d: %s", trial.Seed, trial.Promise)
			case trial.Found():
				byHistories++
				result = "found: " + trial.Promise
			}
			last = fmt.Sprintf("%s, `%s`: %s", trial.At.Format(time.DateOnly), trial.Commit, result)
		}
		lines = append(lines, []string{m.Name, by, last})
	}
	fmt.Fprintf(b, "Each is a defect that `make mutations` puts into the services. There are %d, and %d were tried: histories have found %d of them, and a test %d. A trial begins with the seed that found the defect before, and goes on with seeds 1 to 40.\n\n", len(mutations.Table), all, byHistories, byTests)
	table(b, []string{"defect", "expected of", "last tried"}, lines)
}

// found lists the defects that were found.
func found(b *strings.Builder) {
	b.WriteString("## Defects found\n\nThe commit mends the defect. Where a plan is named, every CI runs it (`integration/simulation/testdata/failed`).\n\n")
	var lines [][]string
	for _, d := range defects {
		lines = append(lines, []string{d.what, d.by, "`" + d.commit + "`", d.again()})
	}
	table(b, []string{"defect", "found by", "mended in", "seen again with"}, lines)
}

// number prints a number with its thousands apart.
func number(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
