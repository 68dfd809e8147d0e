package harness_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// environment is a getenv over fixed variables.
func environment(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

func TestSelectKind(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]harness.Kind{
		"":           harness.KindEmbedded,
		"embedded":   harness.KindEmbedded,
		"containers": harness.KindContainers,
		"external":   harness.KindExternal,
	} {
		if kind, err := harness.SelectKind(environment(map[string]string{harness.KindVariable: value})); err != nil || kind != want {
			t.Errorf("%q selects %q (%v), not %q", value, kind, err, want)
		}
	}
	_, err := harness.SelectKind(environment(map[string]string{harness.KindVariable: "azure"}))
	if want := `PENSTOCK_TEST_BACKEND is "azure": use embedded, containers or external`; err == nil || err.Error() != want {
		t.Errorf("an unknown value gives %v, not %s", err, want)
	}
}

func TestLoadExternal(t *testing.T) {
	t.Parallel()
	good := map[string]string{"PENSTOCK_TEST_MONGODB_URI": "mongodb://store.invalid", "PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING": "Endpoint=sb://bus.invalid/"}
	for variable, test := range map[string]struct{ value, tells string }{
		"PENSTOCK_TEST_SERVICEBUS_ADMIN_ENDPOINT":    {"http://bus.invalid", ""},
		"PENSTOCK_TEST_MONGODB_URI":                  {"", "set PENSTOCK_TEST_MONGODB_URI to"},
		"PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING": {"", "PENSTOCK_TEST_SERVICEBUS_CONNECTION_STRING to"},
		"PENSTOCK_TEST_SERVICEBUS_MAX_CONNECTIONS":   {"0", "use a positive number"},
	} {
		variables := maps.Clone(good)
		variables[variable] = test.value
		_, err := harness.LoadExternal(environment(variables))
		if (err == nil) != (test.tells == "") || err != nil && !strings.Contains(err.Error(), test.tells) {
			t.Errorf("%s=%s gives %v", variable, test.value, err)
		}
	}
}
