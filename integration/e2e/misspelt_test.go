package e2e_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// variable matches a setting in the help of a program.
var variable = regexp.MustCompile(`\$(PENSTOCK_[A-Z0-9_]+)`)

// TestMisspeltVariableIsReported starts each service with one misspelt variable, with the
// variables that only the other service knows, and with those that Kubernetes sets for
// Services. The service starts, and warns of the misspelt one only.
func TestMisspeltVariableIsReported(t *testing.T) {
	t.Parallel()
	projections := filepath.Join(t.TempDir(), "projections.yaml")
	if err := os.WriteFile(projections, []byte("projections: [{name: p, collection: p, on: {Happened: {inc: {n: 1}}}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	publisher, projector := suite.services.Publisher, suite.services.Projector
	for name, test := range map[string]struct{ program, other, misspelt, meant string }{
		"publisher": {publisher, projector, "PENSTOCK_MAX_INFLIGHT_EVENT", "PENSTOCK_MAX_INFLIGHT_EVENTS"},
		"projector": {projector, publisher, "PENSTOCK_SESION_HOLD", "PENSTOCK_SESSION_HOLD"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := []string{
				"PATH=" + os.Getenv("PATH"), test.misspelt + "=1m",
				"MONGODB_URI=mongodb://127.0.0.1:1/?replicaSet=rs0", "PENSTOCK_PROJECTIONS=" + projections,
				"AZURE_SERVICEBUS_CONNECTION_STRING=Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=k;SharedAccessKey=c2VjcmV0;UseDevelopmentEmulator=true",
				"AZURE_SERVICEBUS_TOPIC_NAME=events", "AZURE_SERVICEBUS_SUBSCRIPTION_NAME=projector",
				"PENSTOCK_ELECTION=none", "PENSTOCK_ADMIN_ADDRESS=127.0.0.1:0",
				"PENSTOCK_PUBLISHER_SERVICE_HOST=10.0.0.1", "PENSTOCK_PROJECTOR_PORT_8080_TCP=tcp://10.0.0.1:8080",
			}
			own := variables(t, test.program)
			for _, name := range variables(t, test.other) {
				if !slices.Contains(own, name) {
					env = append(env, name+"=x")
				}
			}
			service := exec.CommandContext(t.Context(), test.program)
			service.Env = env
			stdout, err := service.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var problems strings.Builder
			service.Stderr = &problems
			if err := service.Start(); err != nil {
				t.Fatal(err)
			}
			// All warnings come before any other line.
			var warnings []string
			for lines := bufio.NewScanner(stdout); lines.Scan(); {
				var line struct{ Level, Message string }
				if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
					t.Errorf("%s: %v", lines.Text(), err)
				}
				if !strings.Contains(line.Message, "is not known") {
					break
				}
				warnings = append(warnings, line.Level+": "+line.Message)
			}
			if err := service.Process.Kill(); err != nil {
				t.Error(err)
			}
			_ = service.Wait()
			want := []string{"warn: " + test.misspelt + " is not known; did you mean " + test.meant + "?"}
			if !slices.Equal(warnings, want) {
				t.Errorf("warned %q, want %q\n%s", warnings, want, problems.String())
			}
		})
	}
}

// variables returns the settings that the help of a program names.
func variables(t *testing.T, program string) []string {
	t.Helper()
	help, err := exec.CommandContext(t.Context(), program, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, match := range variable.FindAllStringSubmatch(string(help), -1) {
		names = append(names, match[1])
	}
	if len(names) < 20 {
		t.Fatalf("the help of %s names only %v", program, names)
	}
	return names
}
