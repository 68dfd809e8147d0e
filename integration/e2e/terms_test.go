package e2e_test

import (
	"bytes"
	"os"
)

// checkTerms checks the number of terms. If all processes stand still together, as on a
// virtual machine that is moved, the leader loses its lease and leads again in another term.
// So one more term is allowed for each lease that was lost.
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
