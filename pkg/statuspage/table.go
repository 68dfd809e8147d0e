package statuspage

import (
	"cmp"
	"context"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// Table is a list of records, such as jobs or parked aggregates.
type Table struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
	Rows    []Row    `json:"rows"`
	// Empty is the sentence that the page shows if there are no rows.
	Empty string `json:"empty"`
	// Error says why the rows could not be read. The page shows it instead of them.
	Error string `json:"error,omitempty"`
}

// Row is a row of a table.
type Row struct {
	Cells []string `json:"cells"`
	// Progress is the finished share, for a bar under the row; nil for none.
	Progress *float64 `json:"progress,omitempty"`
	// Alarm marks the row.
	Alarm bool `json:"alarm,omitempty"`
}

// maxRows bounds the rows of a table on the page. Commands show the others.
const maxRows = 50

// Source reads a table. The page shows its error instead of the table.
type Source struct {
	Name    string
	Columns []string
	Empty   string
	Rows    func(ctx context.Context) ([]Row, error)
}

// readTimeout bounds the time to read all tables for one answer. The page shows the tables
// that were read.
const readTimeout = 2 * time.Second

func (s Source) read(ctx context.Context) Table {
	t := Table{Name: s.Name, Columns: s.Columns, Empty: s.Empty, Rows: []Row{}}
	rows, err := s.Rows(ctx)
	if err != nil {
		t.Error = err.Error()
		return t
	}
	t.Rows = append(t.Rows, rows[:min(len(rows), maxRows)]...)
	return t
}

// Series reads the series of a metric that are not zero, as rows: the values of the labels,
// then the formatted number. The greatest number comes first. alarm marks all rows.
func (r *Recorder) Series(metric string, names []string, format func(float64) string, alarm bool) func(context.Context) ([]Row, error) {
	return func(context.Context) ([]Row, error) {
		type found struct {
			cells []string
			value float64
		}
		var all []found
		r.Families().each(metric, nil, func(m *dto.Metric) {
			if v := value(m); v != 0 {
				all = append(all, found{cells(m, names), v})
			}
		})
		slices.SortFunc(all, func(a, b found) int {
			return cmp.Or(cmp.Compare(b.value, a.value), slices.Compare(a.cells, b.cells))
		})
		rows := make([]Row, len(all))
		for i, f := range all {
			rows[i] = Row{Cells: append(f.cells, format(f.value)), Alarm: alarm}
		}
		return rows, nil
	}
}

func cells(m *dto.Metric, names []string) []string {
	values := make([]string, len(names))
	for _, l := range m.GetLabel() {
		if i := slices.Index(names, l.GetName()); i >= 0 {
			values[i] = l.GetValue()
		}
	}
	return values
}
