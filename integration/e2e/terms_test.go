package e2e_test

import (
	"bytes"
	"os"
)

// checkTerms checks how many terms there were. A leader whose lease was not renewed in time
// leads again in another term. It ended none of those that the test is about: all processes
// can have stood still together, as they do on a machine that is moved.
func (s *scenario) checkTerms(what string, terms, want int) {
	s.t.Helper()
	if lost := s.leasesLost(); terms < want || terms > want+lost {
		s.t.Errorf("%d terms %s, not %d; %d leases were not renewed in time", terms, what, want, lost)
	}
}

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
