package statuspage

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

const (
	// interval is the time between two recordings.
	interval = 2 * time.Second
	// kept is the number of recordings that are kept: those of five minutes.
	kept = 150
)

// Figure is a number that the page shows with its history.
type Figure struct {
	Name string
	Unit Unit
	Read Reading
	// Of reads the value that Read cannot exceed. Nil means that there is none.
	Of Reading
	// Alarm reports whether a value needs an operator; the page then marks it. Nil means
	// never.
	Alarm func(float64) bool
	// Unless suppresses the alarm while it reads more than 0. Nil never does.
	Unless Reading
}

// alarms reports whether the page marks the value.
func (f *Figure) alarms(value float64, now Families) bool {
	return f.Alarm != nil && f.Alarm(value) && (f.Unless == nil || !(f.Unless(now, nil, 0) > 0))
}

// Stage is a step of an event through the service.
type Stage struct {
	Name string
	// About describes the stage in one sentence.
	About   string
	Figures []Figure
}

// Above returns a [Figure.Alarm] for values that are greater than a limit.
func Above(limit float64) func(float64) bool { return func(v float64) bool { return v > limit } }

// Below returns a [Figure.Alarm] for values that are less than a limit.
func Below(limit float64) func(float64) bool { return func(v float64) bool { return v < limit } }

// Recorder records the figures of a process's stages. It is safe for concurrent use.
type Recorder struct {
	gatherer prometheus.Gatherer
	stages   []Stage

	mu sync.Mutex
	// series has the recordings of each figure of each stage, the oldest first.
	series [][][]float64
	// families are the metrics of the last gathering, which was made at the time at.
	families Families
	at       time.Time
}

// NewRecorder makes a recorder. It records nothing before [Recorder.Run].
func NewRecorder(gatherer prometheus.Gatherer, stages []Stage) *Recorder {
	r := &Recorder{gatherer: gatherer, stages: stages, series: make([][][]float64, len(stages))}
	for i, stage := range stages {
		r.series[i] = make([][]float64, len(stage.Figures))
	}
	return r
}

// Run records every two seconds until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	poll.Every(ctx, interval, func() { r.record(time.Now()) })
}

// record takes all readings. If a collector fails, only its own figures are missing.
func (r *Recorder) record(now time.Time) {
	gathered, _ := r.gatherer.Gather() // /metrics reports the error
	families := make(Families, len(gathered))
	for _, f := range gathered {
		families[f.GetName()] = f
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seconds := now.Sub(r.at).Seconds()
	for i, stage := range r.stages {
		for j, figure := range stage.Figures {
			series := append(r.series[i][j], figure.Read(families, r.families, seconds))
			if len(series) > kept {
				series = append(series[:0], series[len(series)-kept:]...)
			}
			r.series[i][j] = series
		}
	}
	r.families, r.at = families, now
}

// figureView is a figure as the page reads it. A missing value is null.
type figureView struct {
	Name   string     `json:"name"`
	Unit   Unit       `json:"unit"`
	Value  *float64   `json:"value"`
	Of     *float64   `json:"of,omitempty"`
	Series []*float64 `json:"series"`
	Alarm  bool       `json:"alarm"`
}

type stageView struct {
	Name    string       `json:"name"`
	About   string       `json:"about"`
	Figures []figureView `json:"figures"`
}

// view copies the recordings.
func (r *Recorder) view() []stageView {
	r.mu.Lock()
	defer r.mu.Unlock()
	stages := make([]stageView, len(r.stages))
	for i, stage := range r.stages {
		stages[i] = stageView{Name: stage.Name, About: stage.About, Figures: make([]figureView, len(stage.Figures))}
		for j, figure := range stage.Figures {
			v := figureView{Name: figure.Name, Unit: figure.Unit, Series: make([]*float64, len(r.series[i][j]))}
			for k, value := range r.series[i][j] {
				v.Series[k] = finite(value)
			}
			if n := len(v.Series); n > 0 && v.Series[n-1] != nil {
				v.Value = v.Series[n-1]
				v.Alarm = figure.alarms(*v.Value, r.families)
			}
			if figure.Of != nil {
				v.Of = finite(figure.Of(r.families, nil, 0))
			}
			stages[i].Figures[j] = v
		}
	}
	return stages
}

// finite prepares v for JSON, which has neither NaN nor infinity.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Families are the metrics of the last recording, for tables; empty before the first one.
func (r *Recorder) Families() Families {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.families
}
