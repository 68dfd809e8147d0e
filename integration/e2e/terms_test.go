package e2e_test

import (
	"bytes"
	"os"
)

// leasesLost counts the terms that ended because the lease was not renewed in time, by the
// logs of all publishers.
func (s *scenario) leasesLost() int {
	s.t.Helper()
	lost := 0
	for _, process := range s.started {
		log, err := os.ReadFile(process.Log)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, reason := range []string{"trust_expired", "lease_lost"} {
			lost += bytes.Count(log, []byte(`"reason":"`+reason+`"`))
		}
	}
	return lost
}
