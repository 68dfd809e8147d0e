package projection

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// timeFunctions declares the functions of times and durations. A zone is always named in the
// expression, and UTC without one, so that every projector computes the same.
func timeFunctions() []cel.EnvOption {
	at, span, text, whole, fraction := cel.TimestampType, cel.DurationType, cel.StringType, cel.IntType, cel.DoubleType
	// with declares a function with and without a zone as its last argument. id names its
	// overloads.
	with := func(name, id string, result *cel.Type, arguments []*cel.Type, compute func(t time.Time, zone *time.Location, arguments []ref.Val) (ref.Val, error)) cel.EnvOption {
		n := len(arguments)
		call := cel.FunctionBinding(func(values ...ref.Val) ref.Val {
			zone := time.UTC
			if len(values) > n {
				var err error
				if zone, err = zoneOf(string(values[n].(types.String))); err != nil {
					return types.WrapErr(err)
				}
			}
			v, err := compute(values[0].(types.Timestamp).Time, zone, values[1:n])
			if err != nil {
				return types.WrapErr(err)
			}
			return v
		})
		zoned := append(append([]*cel.Type{}, arguments...), text)
		return cel.Function(name,
			cel.MemberOverload("timestamp_"+id, arguments, result, call),
			cel.MemberOverload("timestamp_"+id+"_zone", zoned, result, call))
	}
	add := func(t time.Time, zone *time.Location, a []ref.Val) (ref.Val, error) {
		n, err := wholeOf(a[0])
		if err != nil {
			return nil, err
		}
		return timestampOf(plus(t, n, string(a[1].(types.String)), zone))
	}
	seconds := func(id string, number *cel.Type) cel.FunctionOpt {
		return cel.Overload(id, []*cel.Type{number, text}, span, cel.BinaryBinding(func(n, unit ref.Val) ref.Val {
			d, err := durationOf(n, string(unit.(types.String)))
			if err != nil {
				return types.WrapErr(err)
			}
			return types.Duration{Duration: d}
		}))
	}
	return []cel.EnvOption{
		with("plus", "plus", at, []*cel.Type{at, whole, text}, add),
		with("plus", "plus_double", at, []*cel.Type{at, fraction, text}, add),
		with("startOf", "startOf", at, []*cel.Type{at, text}, func(t time.Time, zone *time.Location, a []ref.Val) (ref.Val, error) {
			return timestampOf(startOf(t, string(a[0].(types.String)), zone))
		}),
		with("strftime", "strftime", text, []*cel.Type{at, text}, func(t time.Time, zone *time.Location, a []ref.Val) (ref.Val, error) {
			s, err := strftime(t.In(zone), string(a[0].(types.String)))
			return types.String(s), err
		}),
		cel.Function("duration", seconds("penstock_duration_int", whole), seconds("penstock_duration_double", fraction)),
		cel.Function("total", cel.MemberOverload("duration_total", []*cel.Type{span, text}, fraction, cel.BinaryBinding(func(d, unit ref.Val) ref.Val {
			length, err := lengthOf(string(unit.(types.String)))
			if err != nil {
				return types.WrapErr(err)
			}
			return types.Double(float64(d.(types.Duration).Duration) / float64(length))
		}))),
	}
}

// timestampOf checks that a time is in the range of CEL and of RFC 3339.
func timestampOf(t time.Time, err error) (ref.Val, error) {
	if err != nil {
		return nil, err
	}
	t = t.UTC()
	if t.Year() < 1 || t.Year() > 9999 {
		return nil, errTimeRange
	}
	return types.Timestamp{Time: t}, nil
}

var errTimeRange = errors.New("the time is not between the years 1 and 9999")

// maxZone bounds the name of a time zone.
const maxZone = 64

var zoneOffset = regexp.MustCompile(`^([+-])([01]\d|2[0-3]):([0-5]\d)$`)

// zoneOf returns the zone of a name such as Europe/Berlin, or of an offset such as +01:00.
func zoneOf(name string) (*time.Location, error) {
	if err := checkNotLocal(types.String(name)); err != nil {
		return nil, err
	}
	if m := zoneOffset.FindStringSubmatch(name); m != nil {
		hours, _ := strconv.Atoi(m[1] + m[2])
		minutes, _ := strconv.Atoi(m[1] + m[3])
		return time.FixedZone(name, hours*3600+minutes*60), nil
	}
	if name != "" && len(name) <= maxZone {
		if zone, err := time.LoadLocation(name); err == nil {
			return zone, nil
		}
	}
	return nil, fmt.Errorf("there is no time zone %.*q: name one such as Europe/Berlin or America/New_York, or an offset such as +01:00", maxZone, name)
}

const day = 24 * time.Hour

// lengths are the units of durations. All have a fixed length: a day is 24 hours.
var lengths = map[string]time.Duration{
	"millisecond": time.Millisecond, "second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": day, "week": 7 * day,
}

func lengthOf(unit string) (time.Duration, error) {
	length, ok := lengths[strings.TrimSuffix(unit, "s")]
	if !ok {
		return 0, fmt.Errorf("a duration has no unit %.20q: the units are milliseconds, seconds, minutes, hours, days and weeks. Months and years have no fixed length: write timestamp.plus(1, 'month')", unit)
	}
	return length, nil
}

// durationOf returns a duration of n units.
func durationOf(n ref.Val, unit string) (time.Duration, error) {
	length, err := lengthOf(unit)
	if err != nil {
		return 0, err
	}
	errTooLong := fmt.Errorf("a duration of %v %.20s exceeds 290 years", n.Value(), unit)
	i, whole := n.(types.Int)
	f, _ := n.(types.Double)
	if whole {
		f = types.Double(i)
	}
	// The limits of an int64 are not doubles, but their neighbours are.
	product := math.Round(float64(f) * float64(length))
	switch {
	case math.IsNaN(product) || math.Abs(product) >= 1<<63:
		return 0, errTooLong
	case whole:
		return time.Duration(i) * length, nil
	}
	return time.Duration(product), nil
}

// maxPlus bounds what is added to a time, in any unit. It is more than the days of 9999 years.
const maxPlus = 4_000_000

// wholeOf returns a whole number, which some drivers store as a double.
func wholeOf(n ref.Val) (int64, error) {
	f, ok := n.(types.Double)
	if !ok {
		return int64(n.(types.Int)), nil
	}
	if whole := math.Trunc(float64(f)); whole == float64(f) && math.Abs(whole) < 1<<53 {
		return int64(whole), nil
	}
	return 0, fmt.Errorf("plus takes a whole number of units, and %v is none: round it with int(math.round(…)), or write timestamp + duration(%[1]v, 'days')", float64(f))
}

// plus adds calendar units to a time, by the clocks of a zone. The time of day stays. If the
// month has no such day, the result is on its last day. If the clocks skip the result, it is
// later by as much as they skip; if they show it twice, it is the first of both.
func plus(t time.Time, n int64, unit string, zone *time.Location) (time.Time, error) {
	if n < -maxPlus || n > maxPlus {
		return t, errTimeRange
	}
	local := t.In(zone)
	year, month, date := local.Date()
	months := 0
	switch strings.TrimSuffix(unit, "s") {
	case "day":
		date += int(n)
	case "week":
		date += 7 * int(n)
	case "month":
		months = int(n)
	case "quarter":
		months = 3 * int(n)
	case "year":
		months = 12 * int(n)
	default:
		return t, fmt.Errorf("plus has no unit %.20q: the units are days, weeks, months, quarters and years. For shorter ones, write timestamp + duration(2, 'hours')", unit)
	}
	if months != 0 {
		first := time.Date(year, month+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
		year, month = first.Year(), first.Month()
		date = min(date, first.AddDate(0, 1, -1).Day())
	}
	if n == 0 {
		return t, nil
	}
	hour, minute, second := local.Clock()
	shown, _ := instant(time.Date(year, month, date, hour, minute, second, local.Nanosecond(), time.UTC), zone)
	return shown, nil
}

// startOf returns when the unit of time began in which t lies, by the clocks of a zone. A week
// begins on Monday. Where the clocks change within an hour, an hour begins with the change.
func startOf(t time.Time, unit string, zone *time.Location) (time.Time, error) {
	local := t.In(zone)
	year, month, date := local.Date()
	switch strings.TrimSuffix(unit, "s") {
	case "minute":
		return t.Add(-time.Duration(local.Second())*time.Second - time.Duration(local.Nanosecond())), nil
	case "hour":
		began := t.Add(-time.Duration(local.Minute())*time.Minute - time.Duration(local.Second())*time.Second - time.Duration(local.Nanosecond()))
		_, before := began.In(zone).Zone()
		if _, offset := local.Zone(); offset != before {
			began, _ = local.ZoneBounds()
		}
		return began, nil
	case "day":
	case "week":
		date -= (int(local.Weekday()) + 6) % 7
	case "month":
		date = 1
	case "quarter":
		month, date = (month-1)/3*3+1, 1
	case "year":
		month, date = time.January, 1
	default:
		return t, fmt.Errorf("startOf has no unit %.20q: the units are minute, hour, day, week, month, quarter and year", unit)
	}
	shown, skipped := instant(time.Date(year, month, date, 0, 0, 0, 0, time.UTC), zone)
	if skipped {
		shown, _ = shown.In(zone).ZoneBounds()
	}
	return shown, nil
}

// instant returns when the clocks of a zone show a time, which is given as UTC. If they skip
// the time, the result is later by as much as they skip; if they show it twice, it is the
// first of both. It assumes that a zone changes its offset at most once in two days.
func instant(wall time.Time, zone *time.Location) (shown time.Time, skipped bool) {
	_, before := wall.Add(-day).In(zone).Zone()
	_, after := wall.Add(day).In(zone).Zone()
	for _, offset := range [2]int{max(before, after), min(before, after)} {
		shown = wall.Add(-time.Duration(offset) * time.Second)
		if _, actual := shown.In(zone).Zone(); actual == offset {
			return shown, false
		}
	}
	return wall.Add(-time.Duration(before) * time.Second), true
}

// maxFormat bounds the format of a time, in bytes.
const maxFormat = 1000

// epoch is a time for the check of other arguments.
var epoch = time.Unix(0, 0).UTC()

// strftime formats a time by the format of $dateToString in MongoDB, which is that of strftime.
func strftime(t time.Time, format string) (string, error) {
	if len(format) > maxFormat {
		return "", fmt.Errorf("the format has %d bytes, and at most %d are allowed", len(format), maxFormat)
	}
	var b strings.Builder
	number := func(n, digits int) { fmt.Fprintf(&b, "%0*d", digits, n) }
	isoYear, isoWeek := t.ISOWeek()
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		if i++; i == len(format) {
			return "", errors.New("the format ends with a single %: write %% for a percent sign")
		}
		switch format[i] {
		case 'Y':
			number(t.Year(), 4)
		case 'm':
			number(int(t.Month()), 2)
		case 'd':
			number(t.Day(), 2)
		case 'j':
			number(t.YearDay(), 3)
		case 'H':
			number(t.Hour(), 2)
		case 'M':
			number(t.Minute(), 2)
		case 'S':
			number(t.Second(), 2)
		case 'L':
			number(t.Nanosecond()/int(time.Millisecond), 3)
		case 'u':
			number((int(t.Weekday())+6)%7+1, 1)
		case 'G':
			number(isoYear, 4)
		case 'V':
			number(isoWeek, 2)
		case 'z':
			b.WriteString(t.Format("-0700"))
		case '%':
			b.WriteByte('%')
		default:
			return "", fmt.Errorf("strftime has no %%%c: %%Y is the year, %%m the month, %%d the day, %%j the day of the year, %%H, %%M, %%S and %%L the hour, minute, second and millisecond, %%G, %%V and %%u the year, week and day of ISO 8601, %%z the offset and %%%% a percent sign", format[i])
		}
	}
	return b.String(), nil
}
