package projection_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// results checks the results of expressions over [values], as resultsOf does.
func results(t *testing.T, tests map[string]string) {
	t.Helper()
	resultsOf(t, values, tests)
}

// resultsOf checks the results of expressions over a payload. A result begins with "error: " if
// the event fails with such an error.
func resultsOf(t *testing.T, payload string, tests map[string]string) {
	t.Helper()
	for expression, want := range tests {
		p := projectiontest.On(t, fmt.Sprintf("{set: {v: %q}}", expression))
		f := p.Fold(nil, []*event.Event{projectiontest.Event(1, "E", payload)})
		if part, fails := strings.CutPrefix(want, "error: "); fails {
			if f.Err == nil || !strings.Contains(f.Err.Error(), part) || strings.Contains(f.Err.Error(), "internal error") {
				t.Errorf("%s gives %s and the error %v, want the error %s", expression, projectiontest.JSON(t, f.State()), f.Err, part)
			}
			continue
		}
		if got := projectiontest.JSON(t, f.State()); got != `{"v":`+want+`}` {
			t.Errorf("%s gives %s and the error %v, want %s", expression, got, f.Err, want)
		}
	}
}

const values = `{"at":{"$date":"2026-05-06T07:08:09.010Z"},"leap":{"$date":"2028-02-29T12:00:00Z"},"jan31":{"$date":"2026-01-31T10:00:00Z"},
	"gap":{"$date":"2026-03-28T01:30:00Z"},"twice":{"$date":"2026-10-24T00:30:00Z"},"second":{"$date":"2026-10-25T01:30:00Z"},
	"first":{"$date":"0001-01-01T00:00:00Z"},"last":{"$date":"9999-12-31T23:59:59Z"},"sunday":{"$date":"2026-03-29T21:59:00Z"},
	"n":3,"d":2.5,"ten":{"$numberDouble":"10"},"nan":{"$numberDouble":"NaN"},"huge":{"$numberLong":"9223372036854775807"},"least":{"$numberLong":"-9223372036854775808"},"s":"text","unit":"fortnight","z":null,
	"price":{"$numberDecimal":"12.50"},"third":{"$numberDecimal":"0.3333333333333333333333333333333333"},"most":{"$numberDecimal":"9.999999999999999999999999999999999E+6144"},
	"tiny":{"$numberDecimal":"1E-6176"},"decNaN":{"$numberDecimal":"NaN"},"decInf":{"$numberDecimal":"-Infinity"},"zero":{"$numberDecimal":"0.00"},
	"doc":{"b":1,"a":{"x":1}},"lines":[{"sku":"b","n":2,"price":{"$numberDecimal":"1.10"}},{"sku":"a","n":3,"price":{"$numberDecimal":"0.10"}},{"sku":"b","n":5,"price":{"$numberDecimal":"10.00"}}],
	"list":[1,2,3]}`

func TestTimesOfTheCalendar(t *testing.T) {
	t.Parallel()
	results(t, map[string]string{
		"payload.jan31.plus(1, 'month')":                                        `{"$date":"2026-02-28T10:00:00Z"}`,
		"payload.jan31.plus(1, 'month').plus(1, 'month')":                       `{"$date":"2026-03-28T10:00:00Z"}`,
		"payload.jan31.plus(2, 'months')":                                       `{"$date":"2026-03-31T10:00:00Z"}`,
		"payload.jan31.plus(25, 'months')":                                      `{"$date":"2028-02-29T10:00:00Z"}`,
		"payload.jan31.plus(-2, 'months')":                                      `{"$date":"2025-11-30T10:00:00Z"}`,
		"payload.jan31.plus(1, 'quarter')":                                      `{"$date":"2026-04-30T10:00:00Z"}`,
		"payload.leap.plus(1, 'year')":                                          `{"$date":"2029-02-28T12:00:00Z"}`,
		"payload.leap.plus(4, 'years')":                                         `{"$date":"2032-02-29T12:00:00Z"}`,
		"payload.leap.plus(-1, 'day')":                                          `{"$date":"2028-02-28T12:00:00Z"}`,
		"payload.at.plus(2, 'weeks')":                                           `{"$date":"2026-05-20T07:08:09.01Z"}`,
		"payload.at.plus(payload.n, 'days')":                                    `{"$date":"2026-05-09T07:08:09.01Z"}`,
		"payload.gap.plus(1, 'day')":                                            `{"$date":"2026-03-29T01:30:00Z"}`,
		"payload.gap.plus(1, 'day', 'Europe/Berlin')":                           `{"$date":"2026-03-29T01:30:00Z"}`, // 02:30 becomes 03:30
		"payload.gap.plus(2, 'days', 'Europe/Berlin')":                          `{"$date":"2026-03-30T00:30:00Z"}`,
		"payload.twice.plus(1, 'day', 'Europe/Berlin')":                         `{"$date":"2026-10-25T00:30:00Z"}`, // 02:30, the first time
		"payload.second.plus(0, 'days', 'Europe/Berlin')":                       `{"$date":"2026-10-25T01:30:00Z"}`,
		"payload.at.plus(1, 'hour' + 's')":                                      `error: plus has no unit "hours"`,
		"payload.at.plus(payload.d, 'days')":                                    "error: plus takes a whole number of units, and 2.5 is none",
		"payload.at.plus(payload.ten, 'days')":                                  `{"$date":"2026-05-16T07:08:09.01Z"}`,
		"payload.at.plus(-payload.ten, 'days', 'Europe/Berlin')":                `{"$date":"2026-04-26T07:08:09.01Z"}`,
		"payload.at.plus(payload.nan, 'days')":                                  "error: plus takes a whole number of units, and NaN is none",
		"payload.at.plus(payload.ten * 1e300, 'days')":                          "error: plus takes a whole number of units, and 1e+301 is none",
		"payload.z.plus(1, 'day')":                                              "error: plus does not take null and int and string: give a field",
		"payload.at.plus(payload.huge, 'days')":                                 "error: the time is not between the years 1 and 9999",
		"payload.at.plus(payload.least, 'years')":                               "error: the time is not between the years 1 and 9999",
		"payload.last.plus(1, 'day')":                                           "error: the time is not between the years 1 and 9999",
		"payload.first.plus(-1, 'month')":                                       "error: the time is not between the years 1 and 9999",
		"payload.first.startOf('year', '+14:00')":                               "error: the time is not between the years 1 and 9999",
		"payload.at.plus(1, 'day', payload.s)":                                  `error: there is no time zone "text"`,
		"payload.at.startOf('day', '../etc/' + payload.s)":                      "error: there is no time zone",
		"payload.at.startOf('day', '' + '')":                                    "error: there is no time zone",
		"payload.at.startOf(payload.unit)":                                      `error: startOf has no unit "fortnight"`,
		"payload.at.startOf('day', 'Lo' + 'cal')":                               "error: time zone Local is that of the projector",
		"payload.at.startOf('minute')":                                          `{"$date":"2026-05-06T07:08:00Z"}`,
		"payload.at.startOf('hour')":                                            `{"$date":"2026-05-06T07:00:00Z"}`,
		"payload.at.startOf('hour', 'Asia/Kolkata')":                            `{"$date":"2026-05-06T06:30:00Z"}`,
		"timestamp('2026-10-03T15:45:00Z').startOf('hour', 'Australia/LHI')":    `{"$date":"2026-10-03T15:30:00Z"}`, // 02:00 to 02:30 is skipped
		"timestamp('2039-01-01T00:10:00Z').startOf('hour', 'America/St_Johns')": `{"$date":"2038-12-31T23:30:00Z"}`, // the zone's rule has a bound at 00:00Z
		"payload.at.startOf('day')":                                             `{"$date":"2026-05-06T00:00:00Z"}`,
		"payload.at.startOf('day', 'America/New_York')":                         `{"$date":"2026-05-06T04:00:00Z"}`,
		"payload.at.startOf('day', '-08:00')":                                   `{"$date":"2026-05-05T08:00:00Z"}`,
		"payload.at.startOf('week')":                                            `{"$date":"2026-05-04T00:00:00Z"}`,
		"payload.sunday.startOf('week')":                                        `{"$date":"2026-03-23T00:00:00Z"}`,
		"payload.sunday.startOf('week', 'Europe/Berlin')":                       `{"$date":"2026-03-22T23:00:00Z"}`,
		"payload.sunday.startOf('day', 'Europe/Berlin')":                        `{"$date":"2026-03-28T23:00:00Z"}`,
		"payload.at.startOf('month', 'Europe/Berlin')":                          `{"$date":"2026-04-30T22:00:00Z"}`,
		"payload.at.startOf('quarter')":                                         `{"$date":"2026-04-01T00:00:00Z"}`,
		"payload.at.startOf('year', 'Europe/Berlin')":                           `{"$date":"2025-12-31T23:00:00Z"}`,
		"timestamp('2018-11-04T12:00:00Z').startOf('day', 'America/Sao_Paulo')": `{"$date":"2018-11-04T03:00:00Z"}`,           // 00:00 is skipped
		"timestamp('1919-03-31T12:00:00Z').startOf('day', 'America/Toronto')":   `{"$date":{"$numberLong":"-1601753400000"}}`, // 04:30Z, because 23:30 to 00:30 is skipped
		"timestamp('2011-12-30T12:00:00Z').plus(-1, 'day', 'Pacific/Apia')":     `{"$date":"2011-12-30T12:00:00Z"}`,           // the 30th is skipped
		"payload.at.strftime('%Y-%m-%d %H:%M:%S.%L %z %G-W%V-%u %j 100%%')":     `"2026-05-06 07:08:09.010 +0000 2026-W19-3 126 100%"`,
		"payload.at.strftime('%Y-%m-%d %H:%M %z', 'Europe/Berlin')":             `"2026-05-06 09:08 +0200"`,
		"payload.first.strftime('%Y-%m-%d')":                                    `"0001-01-01"`,
		"payload.at.strftime('ä%%')":                                            `"ä%"`,
		"payload.at.strftime(payload.s + '%')":                                  "error: the format ends with a single %",
		"payload.at.strftime('%' + payload.s)":                                  "error: strftime has no %t",
		"payload.s.strftime('%Y')":                                              "error: strftime does not take string and string",
	})
}

func TestDurationsHaveUnits(t *testing.T) {
	t.Parallel()
	results(t, map[string]string{
		"(payload.at - payload.jan31).total('days')":            `94.88065983796297`,
		"(payload.jan31 - payload.at).total('weeks')":           `-13.554379976851852`,
		"duration(payload.n, 'days').total('hours')":            `72.0`,
		"duration(payload.d, 'hours').total('minutes')":         `150.0`,
		"duration(-1, 'week').getHours()":                       `-168`,
		"duration(0.1, 'seconds').total('milliseconds')":        `100.0`,
		"payload.at + duration(payload.n, 'days') > payload.at": `true`,
		"duration(payload.huge, 'days').getHours()":             "error: a duration of 9223372036854775807 days exceeds 290 years",
		"duration(payload.least, 'milliseconds').getHours()":    "error: exceeds 290 years",
		"duration(payload.nan, 'days').getHours()":              "error: a duration of NaN days exceeds 290 years",
		"duration(payload.d * 1e300, 'days').getHours()":        "error: exceeds 290 years",
		"duration(1, payload.unit).getHours()":                  `error: a duration has no unit "fortnight": the units are milliseconds`,
		"duration(payload.s, 'days').getHours()":                "error: duration does not take string and string: write duration(90, 'minutes')",
	})
}

// TestChoiceOfNull checks that a choice between null and another value compiles, in the
// definition too.
func TestChoiceOfNull(t *testing.T) {
	t.Parallel()
	results(t, map[string]string{
		"payload.n > 1 ? null : 'text'":                             "null",
		"payload.n > 9 ? null : 'text'":                             `"text"`,
		"payload.n > 9 ? 1 : null":                                  "null",
		"payload.n > 9 ? null : (payload.n > 1 ? 'a' : null)":       `"a"`,
		"payload.n > 9 ? null : [1]":                                "[1]",
		"[1, 2].map(x, x > 1 ? null : 'a')":                         `["a",null]`,
		"payload.n > 9 ? null : timestamp":                          `{"$date":"2026-01-02T03:04:05.006Z"}`,
		"(payload.n > 1 ? null : 'a') + 'b'":                        "error: + does not take null and string",
		"payload.n > 9 ? null : (payload.at - payload.at)":          "error: a duration cannot be stored as BSON",
		"(payload.n > 1 ? null : 'a') == null ? 'none' : 'present'": `"none"`,
	})
	p := projectiontest.On(t, `{set: {v: "payload.n > 9 ? null :  'text'"}}`)
	if !strings.Contains(p.Definition(), `"v":"payload.n>9?null:'text'"`) {
		t.Errorf("the definition is %s", p.Definition())
	}
}

// TestTimesDoNotDependOnTheZoneOfTheProcess is not parallel, because it sets that zone.
func TestTimesDoNotDependOnTheZoneOfTheProcess(t *testing.T) {
	zone, err := time.LoadLocation("Pacific/Apia")
	if err != nil {
		t.Fatal(err)
	}
	before := time.Local //nolint:gosmopolitan // the test is about it
	defer func() { time.Local = before }()
	time.Local = zone
	results(t, map[string]string{
		"payload.at.startOf('day')":                `{"$date":"2026-05-06T00:00:00Z"}`,
		"payload.jan31.plus(1, 'month')":           `{"$date":"2026-02-28T10:00:00Z"}`,
		"payload.at.strftime('%Y-%m-%d %H:%M %z')": `"2026-05-06 07:08 +0000"`,
	})
}

// TestLeastTimestampIsATimestamp checks that an event of the time that Go and .NET use as the
// absent one, which writers in .NET store, is not taken for an event without a timestamp.
func TestLeastTimestampIsATimestamp(t *testing.T) {
	t.Parallel()
	reader := event.NewReader(event.DefaultFields())
	p := projectiontest.One(t, `
projections:
  - {name: p, collection: p, on: {E: {set: {at: timestamp, all: event.timestamp}}}}
`)
	for stored, want := range map[string]string{
		`{"$date":{"$numberLong":"-62135596800000"}}`: `{"at":{"$date":{"$numberLong":"-62135596800000"}},"all":{"$date":{"$numberLong":"-62135596800000"}}}`,
		`"0001-01-01T00:00:00Z"`:                      `{"at":{"$date":{"$numberLong":"-62135596800000"}},"all":{"$date":{"$numberLong":"-62135596800000"}}}`,
	} {
		ev, err := reader.Read(testkit.FromJSON(`{"aggregateId":"a","eventId":1,"eventType":"E","timestamp":` + stored + `}`))
		if err != nil {
			t.Fatal(err)
		}
		f := p.Fold(nil, []*event.Event{&ev})
		if f.Err != nil {
			t.Errorf("%s: %v", stored, f.Err)
		} else if got := projectiontest.JSON(t, f.State()); got != want {
			t.Errorf("%s: got %s", stored, got)
		}
	}
}
