package atom

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

var iso8601 = regexp.MustCompile(`^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$`)

// parseDuration parses an ISO 8601 duration of days, hours, minutes and seconds. A
// duration that exceeds Go's range is returned as 0, which means forever.
func parseDuration(s string) (time.Duration, error) {
	m := iso8601.FindStringSubmatch(s)
	if m == nil || s == "P" {
		return 0, fmt.Errorf("%q is not a duration", s)
	}

	total := 0.0

	for i, unit := range []float64{86400, 3600, 60, 1} {
		if m[i+1] == "" {
			continue
		}

		n, err := strconv.ParseFloat(m[i+1], 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration: %w", s, err)
		}

		total += n * unit
	}

	if total > (200 * 365 * 24 * time.Hour).Seconds() {
		return 0, nil
	}

	return time.Duration(total * float64(time.Second)), nil
}

// formatDuration formats a duration in ISO 8601, and 0 as forever.
func formatDuration(d time.Duration) string {
	if d == 0 {
		return maxTimeSpan
	}

	return "PT" + strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "S"
}
