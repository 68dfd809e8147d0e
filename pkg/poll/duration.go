package poll

import (
	"fmt"
	"time"
)

const day = 24 * time.Hour

// units are the units of a text. A text from one unit on has that unit and the next one.
var units = []struct {
	least, size time.Duration
	name        string
}{
	{2 * day, day, "d"},
	{time.Hour, time.Hour, "h"},
	{time.Minute, time.Minute, "m"},
	{time.Second, time.Second, "s"},
	{time.Millisecond / 2, time.Millisecond, "ms"},
}

// Duration writes a duration for people, in one form for commands, pages, health and errors (log
// fields keep the form of [time.Duration]): at most two units, without units that are zero, such as 850ms, 12s,
// 2m5s, 1h30m, 26h, 3d4h; 0s if it is less than half a millisecond. It rounds to the smaller unit; seconds have no fraction.
func Duration(d time.Duration) string {
	if d < 0 {
		return "-" + Duration(-d)
	}
	for i, u := range units {
		smaller := u
		if i+1 < len(units) && u.size > time.Second {
			smaller = units[i+1]
		}
		if d < u.least {
			continue
		}
		if rounded := d.Round(smaller.size); rounded != d {
			return Duration(rounded)
		}
		text := fmt.Sprintf("%d%s", d/u.size, u.name)
		if rest := d % u.size / smaller.size; rest > 0 {
			text += fmt.Sprintf("%d%s", rest, smaller.name)
		}
		return text
	}
	return "0s"
}
