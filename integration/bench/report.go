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
	// readings are the results of the rounds in which the row was measured. All of them have
	// the same figures, limits and costs.
	readings []reading
	// Failures are the errors of the other rounds.
	Failures []string
}

// Units of figures.
const (
	unitRate   = "events/s"
	unitMillis = "ms"
)

// reading is the result of a row in one round.
type reading struct {
	// figures are the quantities, the most important one first.
	figures []figure
	// limits are compared with the first figure and have its unit.
	limits []limit
	// costs has the costs of each service.
	costs []cost
}

type figure struct {
	name, unit string
	value      float64
}

// limit is the result of the bare SDK or driver. cpu is in µs per event, and allocs in
// allocations per event. Both are 0 if the limit does not count events.
type limit struct {
	figure
	cpu, allocs float64
}

// cost is the resource usage of a service: CPU in µs per event, allocations per event, and the
// largest resident memory since the process started, in MiB.
type cost struct {
	service           string
	cpu, allocs, peak float64
}

// values returns a value of each round.
func (r *Row) values(of func(one *reading) float64) []float64 {
	values := make([]float64, len(r.readings))
	for i := range r.readings {
		values[i] = of(&r.readings[i])
	}
	return values
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
