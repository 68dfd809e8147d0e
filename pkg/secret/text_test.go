package secret_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/secret"
)

func TestTextIsNotPrinted(t *testing.T) {
	t.Parallel()
	config := struct{ URI secret.Text }{}
	if err := config.URI.UnmarshalText([]byte(" hunter2\n")); err != nil || string(config.URI) != "hunter2" {
		t.Fatalf("the secret is %q, %v", string(config.URI), err)
	}
	var log strings.Builder
	logger := zerolog.New(&log)
	logger.Info().Any("config", config).Msg("")
	coded, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %q %x %d", config, config, config, config.URI, config.URI, config.URI, config.URI), fmt.Sprint(&config), string(coded), log.String()} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "68756e74657232") || !strings.Contains(text, "***") {
			t.Errorf("prints %s", text)
		}
	}
}

func TestTextFromFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "uri")
	if err := os.WriteFile(path, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var text secret.Text
	if err := text.FromFile("URI", ""); err != nil || text != "" {
		t.Errorf("no file: %v", err)
	}
	if err := text.FromFile("URI", path); err != nil || string(text) != "hunter2" {
		t.Errorf("the secret is %q, %v", string(text), err)
	}
	if err := text.FromFile("URI", path); err == nil || err.Error() != "URI_FILE is set beside URI: unset one of them" {
		t.Errorf("both: %v", err)
	}
	text = ""
	if err := text.FromFile("URI", path+"x"); err == nil || !strings.HasPrefix(err.Error(), "URI_FILE cannot be used: ") {
		t.Errorf("no such file: %v", err)
	}
}
