package app

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

// TestCommandsRefuseWrongFlags checks that a command that changes data does nothing if the
// reason is missing or the flags are wrong.
func TestCommandsRefuseWrongFlags(t *testing.T) {
	t.Parallel()
	environ := map[string]string{
		"MONGODB_URI": "mongodb://127.0.0.1:1/?replicaSet=rs0", "AZURE_SERVICEBUS_TOPIC_NAME": "events",
		"AZURE_SERVICEBUS_CONNECTION_STRING": "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=k",
		"PENSTOCK_EVENTS_DATABASE":           "shop", "PENSTOCK_STATE_DATABASE": "penstock",
	}
	parse := func(args []string) (stdout, stderr string, err error) {
		var out, problems bytes.Buffer
		_, err = Parse(args, func(name string) (string, bool) {
			value, ok := environ[name]
			return value, ok
		}, &out, &problems, nil)
		return out.String(), problems.String(), err
	}
	for line, want := range map[string]string{
		"status":                           "",
		"checkpoint set now":               "--why is not set",
		"checkpoint set yesterday --why=x": `<where> is "yesterday"`,
		"checkpoint set 2099-01-01T00:00:00Z --why=x":                       "in the future",
		"checkpoint set beginning --why=x":                                  "",
		"quarantine list --reason=odd":                                      `--reason is "odd", unknown: use one of missing_aggregate_id`,
		"quarantine list --reason=refused":                                  "",
		"quarantine list --limit=0":                                         "--limit is 0",
		"quarantine discard":                                                "--why is not set",
		"quarantine discard --why=x":                                        "",
		"republish --quarantine --older-than=-1s":                           "--older-than is -1s",
		"republish --quarantine --to=2026-01-01T00:00:00Z":                  "use one of them",
		"republish --aggregate=a --reason=refused":                          "without --quarantine",
		"quarantine show":                                                   `expected "<document>"`,
		"republish":                                                         "say which events to send",
		"republish --aggregate=a --from=2026-01-01T00:00:00Z":               "use one of them",
		"republish --from=2026-01-02T00:00:00Z --to=2026-01-01T00:00:00Z":   "not a time span",
		"republish --from=2026-01-01T00:00:00Z":                             "not a time span",
		"republish --from=2026-01-01T00:00:00Z --to=2026-01-02T00:00:00.5Z": "",
		"republish --from=0001-01-01T00:00:00Z --to=2026-01-02T00:00:00Z":   "",
		"republish --aggregate=a --rate=-1":                                 "--rate is -1: use a positive number of events per second, or 0 for no limit",
		"republish --aggregate=a --rate=0":                                  "",
		"republish --quarantine --rate=-1":                                  "--rate is -1",
		"republish --from=monday --to=2026-01-02T00:00:00Z":                 "--from",
		"audit --limit=0":                                                   "--limit is 0",
	} {
		_, problems, err := parse(strings.Fields(line))
		if want == "" && err != nil || want != "" && (!errors.Is(err, cli.ErrUsage) || !strings.Contains(problems, want)) {
			t.Errorf("%s: %v\n%s", line, err, problems)
		}
		if want != "--why is not set" {
			continue
		}
		help, _, err := parse(append(strings.Fields(line), "--help"))
		if !errors.Is(err, cli.ErrHelp) || !strings.Contains(strings.Join(strings.Fields(help), " "), "for the audit; required.") {
			t.Errorf("the help of %s does not say that --why is required: %v\n%s", line, err, help)
		}
	}
}
