package event

import (
	"encoding/binary"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// readTimestamp reads the forms that have one meaning:
//
//	date                             the driver's form of a time
//	text                             RFC 3339, with its zone
//	timestamp                        seconds since 1970, as the oplog has them
//	{DateTime: date, …}              .NET's DateTimeOffset as a document
//	[ticks, minutes]                 .NET's DateTimeOffset as an array: local ticks of 100 ns
//	                                 since the year 1, and the offset of their zone
//
// Every other form is ambiguous: a number has no unit, a text may lack a zone.
// Such an event has no time, and its form is kept for [Event.UnreadableTimestamp].
func (ev *Event) readTimestamp(v bson.RawValue) {
	switch v.Type {
	case 0:
		return
	case bson.TypeDateTime:
		ev.Timestamp, ev.timed = dateOf(v), true
	case bson.TypeTimestamp:
		seconds, _ := v.Timestamp()
		ev.Timestamp, ev.timed = time.Unix(int64(seconds), 0).UTC(), true
	case bson.TypeString:
		s := stringBytes(v)
		if t, err := time.Parse(time.RFC3339, string(s)); err == nil {
			ev.Timestamp, ev.timed = t.UTC(), true
			return
		}
		ev.timestampForm = "the text " + quoted(s) + ", which is not an RFC 3339 time with a zone"
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		if t, ok := dateTimeOffset(v); ok {
			ev.Timestamp, ev.timed = t, true
			return
		}
		ev.timestampForm = "a value of type " + v.Type.String() + " that is no DateTimeOffset of .NET"
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal128:
		ev.timestampForm = fmt.Sprintf("a number (%s), which has no unit", v.Type)
	default:
		ev.timestampForm = "a value of type " + v.Type.String()
	}
}

func dateOf(v bson.RawValue) time.Time {
	return time.UnixMilli(int64(binary.LittleEndian.Uint64(v.Value))).UTC()
}

// dateTimeOffset reads both forms in which .NET's driver stores a DateTimeOffset:
// https://mongodb.github.io/mongo-csharp-driver (DateTimeOffsetSerializer).
func dateTimeOffset(v bson.RawValue) (time.Time, bool) {
	rest, err := elements(v.Value)
	if err != nil {
		return time.Time{}, false
	}
	var numbers []int64
	for len(rest) > 0 {
		var name []byte
		var value bson.RawValue
		if name, value, rest, err = nextElement(rest); err != nil {
			return time.Time{}, false
		}
		if v.Type == bson.TypeEmbeddedDocument {
			if string(name) == "DateTime" && value.Type == bson.TypeDateTime {
				return dateOf(value), true
			}
			continue
		}
		n, isInteger := value.AsInt64OK()
		if !isInteger || value.Type == bson.TypeDouble || len(numbers) == 2 {
			return time.Time{}, false
		}
		numbers = append(numbers, n)
	}
	// Ticks of the years 1 to 9999, and an offset of at most 14 hours. Smaller numbers could be
	// anything else.
	const (
		perSecond         = 10_000_000
		unixEpoch         = 621_355_968_000_000_000
		firstYear, last   = unixEpoch / 10, 3_155_378_975_999_999_999
		maxMinutes        = 14 * 60
		nanosecondsInTick = 100
	)
	if len(numbers) != 2 || numbers[0] < firstYear || numbers[0] > last || max(numbers[1], -numbers[1]) > maxMinutes {
		return time.Time{}, false
	}
	ticks := numbers[0] - numbers[1]*60*perSecond - unixEpoch
	return time.Unix(ticks/perSecond, ticks%perSecond*nanosecondsInTick).UTC(), true
}
