package build_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// terraform is the folder of the example for Azure.
var terraform = filepath.Join("..", "examples", "azure")

// TestTerraformHasTheSettingsOfTheInstallationPage compares the example with the commands
// of docs/install.md, setting by setting: both describe the same resources.
func TestTerraformHasTheSettingsOfTheInstallationPage(t *testing.T) {
	t.Parallel()
	page := read(t, filepath.Join("..", "..", "docs", "install.md"))
	main, identities := read(t, filepath.Join(terraform, "main.tf")), read(t, filepath.Join(terraform, "identities.tf"))
	namespace := resource(t, main, "azurerm_servicebus_namespace", "this")
	topic := resource(t, main, "azurerm_servicebus_topic", "events")
	subscription := resource(t, main, "azurerm_servicebus_subscription", "projector")
	for flag, attribute := range map[string]string{
		"--premium-messaging-partitions 1":                   namespace["premium_messaging_partitions"],
		"--disable-local-auth true":                          map[string]string{"false": "true", "true": "false"}[namespace["local_auth_enabled"]],
		"--enable-duplicate-detection true":                  topic["requires_duplicate_detection"],
		"--duplicate-detection-history-time-window PT10M":    topic["duplicate_detection_history_time_window"],
		"--name events":                                      topic["name"],
		"--name projector":                                   subscription["name"],
		"--enable-session true":                              subscription["requires_session"],
		"--lock-duration PT1M":                               subscription["lock_duration"],
		"--max-delivery-count 100":                           subscription["max_delivery_count"],
		"--enable-dead-lettering-on-message-expiration true": subscription["dead_lettering_on_message_expiration"],
	} {
		if !strings.Contains(page, flag) {
			t.Errorf("docs/install.md does not have %s", flag)
		}
		want := strings.Fields(flag)[1]
		if got := strings.Trim(attribute, `"`); got != want && !strings.Contains(got, "? "+want+" :") {
			t.Errorf("docs/install.md has %s, and the example has %q", flag, got)
		}
	}
	for _, line := range []string{"Azure Service Bus Data Sender", "Azure Service Bus Data Receiver", "api://AzureADTokenExchange"} {
		if !strings.Contains(page, line) || !strings.Contains(identities, line) {
			t.Errorf("%q is not in both docs/install.md and the example", line)
		}
	}
}

// TestTerraformPrintsTheValuesOfTheInstallationPage checks that the output has the keys of
// the values file in docs/install.md, except those of MongoDB.
func TestTerraformPrintsTheValuesOfTheInstallationPage(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(read(t, filepath.Join("..", "..", "docs", "install.md")), "cat > values.yaml <<END\n")
	page, _, _ := strings.Cut(rest, "\nEND\n")
	_, rest, _ = strings.Cut(read(t, filepath.Join(terraform, "outputs.tf")), "<<-YAML\n")
	output, _, _ := strings.Cut(rest, "\n  YAML\n")
	want, got := keys(t, page), keys(t, regexp.MustCompile(`\$\{[^}]*\}`).ReplaceAllString(output, "value"))
	maps.DeleteFunc(want, func(key string, _ bool) bool { return strings.HasPrefix(key, "mongodb.") })
	for key := range want {
		if !got[key] {
			t.Errorf("the output of the example lacks %s", key)
		}
	}
	for key := range got {
		if !want[key] {
			t.Errorf("the output of the example has %s, which docs/install.md does not have", key)
		}
	}
}

// TestTerraformIsFormatted also checks the syntax, because Terraform formats only what it
// can parse.
func TestTerraformIsFormatted(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("terraform")
	if err != nil {
		t.Skip(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "fmt", "-check", "-diff", terraform).CombinedOutput()
	if err != nil {
		t.Errorf("terraform fmt: %v\n%s", err, out)
	}
}

// resource returns the attributes of a resource, with their values as written.
func resource(t *testing.T, text, kind, name string) map[string]string {
	t.Helper()
	_, rest, found := strings.Cut(text, `resource "`+kind+`" "`+name+`" {`)
	if !found {
		t.Fatalf("the example has no %s.%s", kind, name)
	}
	body, _, _ := strings.Cut(rest, "\n}\n")
	attributes := make(map[string]string)
	for line := range strings.Lines(body) {
		if key, value, found := strings.Cut(line, "="); found {
			attributes[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return attributes
}

// keys are the paths of a YAML text's scalars.
func keys(t *testing.T, text string) map[string]bool {
	t.Helper()
	var document map[string]any
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	found := make(map[string]bool)
	var walk func(prefix string, node map[string]any)
	walk = func(prefix string, node map[string]any) {
		for key, value := range node {
			if inner, isMap := value.(map[string]any); isMap {
				walk(prefix+key+".", inner)
			} else {
				found[prefix+key] = true
			}
		}
	}
	walk("", document)
	return found
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
