package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretsComeFromFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "uri")
	if err := os.WriteFile(path, []byte("mongodb://u:s3cret@h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environment := complete()
	delete(environment, "MONGODB_URI")
	environment["MONGODB_URI_FILE"] = path
	var s service
	if o := run(t, &s, environment); o.err != nil {
		t.Fatalf("got %v, %s", o.err, o.stderr)
	}
	if at := s.MongoDB.State(); at.URI != "mongodb://u:s3cret@h" || at.File != path {
		t.Errorf("got %+v", at)
	}
}

func TestTheURLOfAHostIsShown(t *testing.T) {
	t.Parallel()
	for namespace, want := range map[string]string{
		"https://orders.servicebus.windows.net/": `AZURE_SERVICEBUS_NAMESPACE (--servicebus-namespace) is "https://orders.servicebus.windows.net/", which is not a host name`,
		"https://orders/?sig=s3cret":             "AZURE_SERVICEBUS_NAMESPACE (--servicebus-namespace) is ***, which is not a host name",
		"sb://h/s3cret":                          "AZURE_SERVICEBUS_NAMESPACE (--servicebus-namespace) is ***, which is not a host name",
	} {
		environment := complete()
		delete(environment, "AZURE_SERVICEBUS_CONNECTION_STRING")
		environment["AZURE_SERVICEBUS_NAMESPACE"] = namespace
		if got := lines(t, run(t, &service{}, environment)); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: got %q", namespace, got)
		}
	}
}

// The pipe "echo … | base64" puts a line break into a Secret, and so into a variable.
func TestSecretsLoseTheWhiteSpaceAroundThem(t *testing.T) {
	t.Parallel()
	environment := complete()
	want := environment["MONGODB_URI"]
	environment["MONGODB_URI"] = " " + want + "\n"
	environment["PENSTOCK_STATE_MONGODB_URI"] = "\n"
	environment["AZURE_SERVICEBUS_CONNECTION_STRING"] += "\r\n"
	var s service
	if o := run(t, &s, environment); o.err != nil {
		t.Fatalf("got %v, %s", o.err, o.stderr)
	}
	if s.MongoDB.State().URI != want || s.Bus.ConnectionString != complete()["AZURE_SERVICEBUS_CONNECTION_STRING"] {
		t.Errorf("got %q, %q", s.MongoDB.State().URI, s.Bus.ConnectionString)
	}
	if o := run(t, &s, complete(), "--mongodb-uri="+want+"\n"); o.err != nil || s.MongoDB.URI != want {
		t.Errorf("flag: got %v, %q", o.err, s.MongoDB.URI)
	}
}

// Each wrong file gives one problem, and none of them shows a secret.
func TestSecretFilesThatCannotBeUsedAreReported(t *testing.T) {
	t.Parallel()
	empty, wrong := filepath.Join(t.TempDir(), "empty"), filepath.Join(t.TempDir(), "wrong")
	for path, content := range map[string]string{empty: "\n", wrong: "mongodb://u:s3cret@:::?"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct{ uri, file, want string }{
		"both":           {"mongodb://u:s3cret@h", empty, "MONGODB_URI_FILE (--mongodb-uri-file) is set beside MONGODB_URI: unset one of them"},
		"empty":          {"", empty, "MONGODB_URI_FILE (--mongodb-uri-file) cannot be used: read a secret: " + empty + " is empty"},
		"missing":        {"", empty + "x", "MONGODB_URI_FILE (--mongodb-uri-file) cannot be used: read a secret: open " + empty + "x: no such file"},
		"no URI in it":   {"", wrong, "MONGODB_URI (--mongodb-uri) is not a MongoDB connection string"},
		"URL as path":    {"", "mongodb://h:27017/", `MONGODB_URI_FILE (--mongodb-uri-file) is "mongodb://h:27017/", which looks like a connection string`},
		"a path in it":   {"", "https://h/s3cret", "MONGODB_URI_FILE (--mongodb-uri-file) is ***, which looks like a connection string"},
		"secret as path": {"", "mongodb://u:s3cret@h", "MONGODB_URI_FILE (--mongodb-uri-file) is ***, which looks like a connection string"},
	} {
		environment := complete()
		environment["MONGODB_URI"], environment["MONGODB_URI_FILE"] = test.uri, test.file
		got := lines(t, run(t, &service{}, environment))
		if len(got) == 0 || !strings.HasPrefix(got[0], test.want) || len(got) > 1 && !strings.Contains(test.file, "://") || strings.Contains(strings.Join(got, ""), "s3cret") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
