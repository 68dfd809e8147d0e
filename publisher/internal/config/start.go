package config

import (
	"fmt"
	"time"
)

// Start points with a name.
const (
	startBeginning = "beginning"
	startNow       = "now"
)

// StartPoint is where a stream without a checkpoint starts. The zero value is the
// beginning.
type StartPoint struct {
	// Now means the moment of the first start.
	Now bool
	// At is a time, unless it is zero.
	At time.Time
}

// String is the start point as it is configured.
func (s StartPoint) String() string {
	switch {
	case s.Now:
		return startNow
	case !s.At.IsZero():
		return s.At.Format(time.RFC3339)
	default:
		return startBeginning
	}
}

// StartPoint parses Start.
func (s Stream) StartPoint() (StartPoint, error) { return ParseStartPoint("PENSTOCK_START", s.Start) }

// ParseStartPoint parses a start point. setting is its name in errors.
func ParseStartPoint(setting, text string) (StartPoint, error) {
	switch text {
	case startBeginning:
		return StartPoint{}, nil
	case startNow:
		return StartPoint{Now: true}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return StartPoint{}, fmt.Errorf("%s is %q: use beginning, now, or an RFC 3339 time such as 2026-03-01T00:00:00Z", setting, text)
	}
	switch {
	case at.Unix() < 1:
		return StartPoint{}, fmt.Errorf("%s is %q, which is before 1970: use beginning", setting, text)
	case at.After(time.Now()):
		return StartPoint{}, fmt.Errorf("%s is %q, in the future: use now", setting, text)
	}
	return StartPoint{At: at}, nil
}
