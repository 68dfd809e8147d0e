package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestMisspeltVariables(t *testing.T) {
	t.Parallel()
	known := []string{"PENSTOCK_MAX_INFLIGHT_EVENTS", "PENSTOCK_SESSION_IDLE", "PENSTOCK_WHO", "PENSTOCK_ADMIN_PORT", "MONGODB_URI"}
	for entry, meant := range map[string]string{
		"PENSTOCK_MAX_INFLIGHT_EVENT=5":            "PENSTOCK_MAX_INFLIGHT_EVENTS",
		"PENSTOCK_MAX_INFLIHGT_EVENTS=5":           "PENSTOCK_MAX_INFLIGHT_EVENTS",
		"PENSTOCK_SESION_IDLE=1s":                  "PENSTOCK_SESSION_IDLE",
		"PENSTOCK_SESSION_IDLE=1s":                 "",
		"PENSTOCK_SESION_IDLE=":                    "",
		"PENSTOCK_SESSION_MODE=bucket":             "",
		"PENSTOCK_WHY=x":                           "",
		"MONGODB_URL=mongodb://db":                 "",
		"PENSTOCK_ADMIN_SERVICE_HOST=10.0.0.1":     "",
		"PENSTOCK_ADMIN_SERVICE_PORT_HTTP=8080":    "",
		"PENSTOCK_ADMI_PORT=tcp://10.0.0.1:8080":   "",
		"PENSTOCK_ADMIN_PORT_8080_TCP_PROTO=tcp":   "",
		"PENSTOCK_ADMIN_PORTS=8080":                "PENSTOCK_ADMIN_PORT",
		"PENSTOCK_PROJECTOR_PORT_8080_TCP_ADDR=10": "",
	} {
		var want []misspelling
		if meant != "" {
			name, _, _ := strings.Cut(entry, "=")
			want = []misspelling{{name, meant}}
		}
		if got := misspelt([]string{"PATH=/bin", entry}, known); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", entry, got, want)
		}
	}
}
