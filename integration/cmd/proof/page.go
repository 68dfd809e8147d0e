package main

import (
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
$ make proof SEEDS=1..300            # adds a run, and writes this page again
$ make proof SEEDS=%d FOR=8h       # goes on with seeds that are not here yet
$ make proof MUTATIONS=.             # tries the mutations too, about a minute each
` + "```" + `

`

// page returns the page. trials are in the order in which they were made.
func page(runs []record.Run, trials []record.Mutation) string {
	var b strings.Builder
	var sum record.Tally
	var last uint64
	for _, r := range runs {
		sum.Add(&r.Tally)
		last = max(last, r.Last)
	}
	fmt.Fprintf(&b, head, last+1)
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
	failed, begun, different, mended := 0, 0, make(map[uint64]bool), make(map[string]int)
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
		}
		begun += int(r.Last - r.First + 1)
		for _, e := range r.Explained {
			mended[e.Mended] += len(e.Seeds)
			fmt.Fprintf(&explained, "- `%s`, %s (%s): %s.\n", r.Commit, strings.ReplaceAll(strings.Trim(fmt.Sprint(e.Seeds), "[]"), " ", ", "), e.Mended, e.Why)
		}
		lines = append(lines, row(r.At.Format(time.DateOnly), "`"+r.Commit+"`", fmt.Sprintf("%d to %d", r.First, r.Last), &r.Tally, failures))
	}
	lines = append(lines, row("all", "", number(len(different))+" different ones", sum, number(failed)))
	table(b, []string{"day", "commit", "seeds", "histories", "virtual hours", "events", "requests to MongoDB", "answers to readers", "failed"}, lines)
	b.WriteString("A plus sign behind a commit says that the code had changes which were not committed yet. Only `make proof` adds a line: runs of `make simulate` are not here.\n\n")
	fmt.Fprintf(b, "Of %s histories that began, %s ended; the others are among the %s that failed. The mistake was in these (in the simulation: in a check or an operator of it):\n\n", number(begun), number(sum.Histories), number(failed))
	for _, what := range slices.Sorted(maps.Keys(mended)) {
		fmt.Fprintf(b, "- %s: %d\n", what, mended[what])
		failed -= mended[what]
	}
	if failed > 0 {
		fmt.Fprintf(b, "- not explained yet: %d\n", failed)
	}
	if explained.Len() > 0 {
		fmt.Fprintf(b, "\nBy commit and seed:\n\n%s", explained.String())
	}
	b.WriteString("\n")
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
	fmt.Fprintf(b, "Each of the %s histories was held against all checks of its commit, except for [what they cannot show](simulation.md#what-it-cannot-show). Today's checks, by [promise](../ARCHITECTURE.md#what-is-promised):\n\n", number(histories))
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
	b.WriteString("## Faults\n\nHow often each was begun: one that finds nothing to strike counts too. [The code](../integration/simulation/faults.go) says what each does.\n\n")
	var lines [][]string
	for _, kind := range slices.Sorted(maps.Keys(struck)) {
		lines = append(lines, []string{kind, number(struck[kind])})
	}
	table(b, []string{"fault", "begun"}, lines)
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
	fmt.Fprintf(b, "A state is what a fault meets: its kind, how many publishers and projectors run, whether one leads and what it reads from, the step of each build, whether an aggregate is parked, and whether other faults last. In the longest run, of %s histories on `%s`, the faults had met this many different ones after:\n\n", number(longest.Histories), longest.Commit)
	var lines [][]string
	before := record.Point{}
	for _, p := range longest.States {
		lines = append(lines, []string{number(p.Histories), number(p.States), fmt.Sprintf("%.1f", float64(p.States-before.States)/float64(max(1, p.Histories-before.Histories)))})
		before = p
	}
	table(b, []string{"histories", "states", "new ones a history, since the line above"}, lines)
	if n := len(longest.States); n > 1 && longest.States[n-1].States > longest.States[n-2].States {
		b.WriteString("The curve still rises: more histories meet states that none has met.\n\n")
	}
}

// score lists the mutations: who finds each, and why histories do not.
func score(b *strings.Builder, trials []record.Mutation) {
	tried := make(map[string]record.Mutation)
	for _, m := range trials {
		tried[m.Name] = m
	}
	b.WriteString("## Mutations\n\n")
	var all, byHistories, early, byTests int
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
				_, test, _ := strings.Cut(trial.Test, " ")
				result = "found by `" + test + "`"
			case trial.Seed > 0:
				byHistories++
				if trial.Seed <= mutations.Most {
					early++
				}
				result = fmt.Sprintf("found by seed %d: %s", trial.Seed, trial.Promise)
			case trial.Found():
				byHistories++
				result = "found: " + trial.Promise
			}
			last = fmt.Sprintf("%s, `%s`: %s", trial.At.Format(time.DateOnly), trial.Commit, result)
		}
		lines = append(lines, []string{m.Name, by, last})
	}
	fmt.Fprintf(b, "Each is a defect that `make mutations` puts into the services. There are %d, and %d were tried: histories have found %d of them, of these %d with a seed of 1 to %d, and a test %d. A trial begins with the seed that found the defect before, if one is known, and goes on with seeds 1 to %d; only what fails with the defect and passes without it counts. What a test finds is not tried with histories.\n\n", len(mutations.Table), all, byHistories, early, mutations.Most, byTests, mutations.Most)
	table(b, []string{"defect", "expected of", "last tried"}, lines)
}

// found lists the defects that were found.
func found(b *strings.Builder) {
	b.WriteString("## Defects found\n\nThis table has the defects whose finder and test are known; git has more, and mends that [ADR 0015](adr/0015-fewer-mechanisms.md) took back with their rare worlds are not here. The commit mends the defect. A test or plan passes today, and fails without the mend; `make mutations` takes the mend back itself, and passes if the defect is found. A seed that is named can draw another plan today, as plans change when the world gets new faults; many are of runs from before this record. Every CI runs the plans of `integration/simulation/testdata/failed`. A second reading is one by somebody who has not written the code.\n\n")
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
