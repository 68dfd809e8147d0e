package bench

import "slices"

// Report is the result of a run.
type Report struct {
	Host Host
	Rows []Row
}

// Row is one subject of the table.
type Row struct {
	Name  string
	Title string
	// Figures are the row's results, the most important one first.
	Figures []Figure
	// Limits are compared with the first figure and have its unit.
	Limits []Limit
	// Costs has the costs of each service.
	Costs []Cost
	// Failures are the errors of the rounds in which the row was not measured.
	Failures []string
}

// Figure is one quantity in all rounds.
type Figure struct {
	Name   string
	Unit   string
	Rounds []float64
}

// Limit is the result of the bare SDK or driver in the same rounds.
type Limit struct {
	Figure
	// Ratios are the row's first figure divided by the limit, round by round.
	Ratios []float64
	// CPU is in µs per event, Allocs in allocations per event. They are empty if the limit
	// does not count events.
	CPU    []float64
	Allocs []float64
}

// Cost is the resource usage of a service.
type Cost struct {
	Service string
	// CPU is in µs per event, and Allocs in allocations per event.
	CPU    []float64
	Allocs []float64
	// Peak is the largest resident memory since the process started, in MiB.
	Peak []float64
}

// Units of figures.
const (
	unitRate   = "events/s"
	unitMillis = "ms"
)

// reading is the result of a row in one round.
type reading struct {
	figures []figure
	limits  []limit
	costs   []cost
}

type figure struct {
	name, unit string
	value      float64
}

type limit struct {
	figure
	cpu, allocs float64
}

type cost struct {
	service           string
	cpu, allocs, peak float64
}

// add adds the reading of another round.
func (r *Row) add(one reading) {
	for i, f := range one.figures {
		if i == len(r.Figures) {
			r.Figures = append(r.Figures, Figure{Name: f.name, Unit: f.unit})
		}
		r.Figures[i].Rounds = append(r.Figures[i].Rounds, f.value)
	}
	for i, l := range one.limits {
		if i == len(r.Limits) {
			r.Limits = append(r.Limits, Limit{Figure: Figure{Name: l.name, Unit: l.unit}})
		}
		into := &r.Limits[i]
		into.Rounds = append(into.Rounds, l.value)
		into.Ratios = append(into.Ratios, one.figures[0].value/l.value)
		if l.cpu > 0 {
			into.CPU, into.Allocs = append(into.CPU, l.cpu), append(into.Allocs, l.allocs)
		}
	}
	for i, c := range one.costs {
		if i == len(r.Costs) {
			r.Costs = append(r.Costs, Cost{Service: c.service})
		}
		into := &r.Costs[i]
		into.CPU, into.Allocs, into.Peak = append(into.CPU, c.cpu), append(into.Allocs, c.allocs), append(into.Peak, c.peak)
	}
}

// median returns the median of the values, 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
