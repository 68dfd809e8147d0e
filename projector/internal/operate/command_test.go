package operate

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

// TestHelpSaysWhichCommandsNeedAReason checks the help of --why against the refusal of a
// command without it.
func TestHelpSaysWhichCommandsNeedAReason(t *testing.T) {
	t.Parallel()
	environ := map[string]string{
		"MONGODB_URI": "mongodb://127.0.0.1:1/?replicaSet=rs0", "AZURE_SERVICEBUS_TOPIC_NAME": "events",
		"AZURE_SERVICEBUS_SUBSCRIPTION_NAME": "projector",
		"AZURE_SERVICEBUS_CONNECTION_STRING": "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=k",
	}
	parse := func(args []string) (stdout, stderr string, err error) {
		var out, problems bytes.Buffer
		_, err = Parse(args, func(name string) (string, bool) {
			value, ok := environ[name]
			return value, ok
		}, &out, &problems, nil)
		return out.String(), problems.String(), err
	}
	for line, required := range map[string]bool{
		"parked discard":                 true,
		"parked retry":                   false,
		"deadletters discard --reason=x": true,
		"projections drop orders":        true,
		"projections rebuild orders":     false,
		"jobs cancel rebuild-orders-2":   false,
		"verify":                         false,
	} {
		args := strings.Fields(line)
		_, problems, err := parse(args)
		if refused := errors.Is(err, cli.ErrUsage) && strings.Contains(problems, "--why is not set"); refused != required {
			t.Errorf("%s is refused without --why: %t, want %t\n%s", line, refused, required, problems)
		}
		help, _, err := parse(append(args, "--help"))
		want := "for the audit; optional."
		if required {
			want = "for the audit; required."
		}
		if !errors.Is(err, cli.ErrHelp) || !strings.Contains(strings.Join(strings.Fields(help), " "), want) {
			t.Errorf("the help of %s lacks %q: %v\n%s", line, want, err, help)
		}
	}
}
