package e2e_test

import (
	"strings"
)

// step is a line of a table of commands: what a user types, and what that shows.
type step struct {
	// line is the program, a command and its flags, separated by spaces.
	line   string
	status int
	// says are texts of the two outputs, separated by " … ".
	says string
}

// steps runs commands one after the other, and compares what they show. The projector's have
// only the settings of MongoDB (see [scenario.projectorCommand]), the publisher's those of the
// publishers.
func (s *scenario) steps(steps ...step) {
	s.t.Helper()
	for _, step := range steps {
		words := strings.Fields(step.line)
		run := s.publisherCommand
		if words[0] == "projector" {
			run = s.projectorCommand
		}
		stdout, stderr := run(step.status, words[1:]...)
		for _, text := range strings.Split(step.says, " … ") {
			if !strings.Contains(stdout+stderr, text) {
				s.t.Errorf("%s does not say %q:\n%s%s", step.line, text, stdout, stderr)
			}
		}
	}
}
