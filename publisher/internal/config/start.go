package config

import (
	"fmt"
	"time"
)

// The start points that are words.
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

// StartPoint reads Start.
func (s Stream) StartPoint() (StartPoint, error) {
	switch s.Start {
	case startBeginning:
		return StartPoint{}, nil
	case startNow:
		return StartPoint{Now: true}, nil
	}
	at, err := time.Parse(time.RFC3339, s.Start)
	if err != nil {
		return StartPoint{}, fmt.Errorf("PENSTOCK_START is %q: use beginning, now, or an RFC 3339 time such as 2026-03-01T00:00:00Z", s.Start)
	}
	switch {
	case at.Unix() < 1:
		return StartPoint{}, fmt.Errorf("PENSTOCK_START is %q, before there was MongoDB: use beginning", s.Start)
	case at.After(time.Now()):
		return StartPoint{}, fmt.Errorf("PENSTOCK_START is %q, in the future: use now", s.Start)
	}
	return StartPoint{At: at}, nil
}
