package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		content string
		code    int
		says    string
	}{
		"good":                {"FROM --platform=$BUILDPLATFORM golang:1.26 AS build\nRUN go build -o /x\nFROM scratch\nCOPY --from=build /x /x\nENTRYPOINT [\"/x\"]\n", 0, ""},
		"unknown instruction": {"FROM scratch\nRUNN x\n", 1, "unknown instruction: RUNN"},
		"no FROM":             {"RUN x\n", 1, "no build stage"},
		"secret":              {"FROM scratch\nENV API_TOKEN=x\n", 1, "SecretsUsedInArgOrEnv"},
		"undefined variable":  {"FROM scratch\nCOPY $WHERE /x\n", 1, "UndefinedVar"},
		"shell form":          {"FROM scratch\nENTRYPOINT /x\n", 1, "JSONArgsRecommended"},
		"unused base default": {"ARG VERSION\nFROM golang:$VERSION\n", 1, "InvalidDefaultArgInFrom"},
		"empty":               {"\n", 2, "the file is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "Dockerfile")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if code := run(t.Context(), []string{path}, &out, &out); code != c.code {
				t.Errorf("got the code %d, want %d:\n%s", code, c.code, out.String())
			}
			if c.says == "" && out.Len() > 0 || !strings.Contains(out.String(), c.says) {
				t.Errorf("got %q", out.String())
			}
		})
	}
}

// One file with a finding is enough, at any position among the files.
func TestRunChecksEveryFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	good, bad := filepath.Join(folder, "good"), filepath.Join(folder, "bad")
	for path, content := range map[string]string{good: "FROM scratch\n", bad: "FROM scratch\nMAINTAINER me\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, files := range [][]string{{good, bad}, {bad, good}} {
		var out strings.Builder
		if code := run(t.Context(), files, &out, &out); code != 1 || !strings.Contains(out.String(), "MaintainerDeprecated") {
			t.Errorf("%q: got %d, %q", files, code, out.String())
		}
	}
	for _, files := range [][]string{nil, {filepath.Join(folder, "missing")}} {
		var out strings.Builder
		if code := run(t.Context(), files, &out, &out); code != 2 || out.Len() == 0 {
			t.Errorf("%q: got %d, %q", files, code, out.String())
		}
	}
}

func TestDockerfilesOfTheRepositoryPass(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	root := filepath.Join("..", "..", "..")
	files := []string{filepath.Join(root, "publisher", "Dockerfile"), filepath.Join(root, "projector", "Dockerfile"), filepath.Join(root, ".devcontainer", "Dockerfile")}
	if code := run(t.Context(), files, &out, &out); code != 0 {
		t.Errorf("got %d: %s", code, out.String())
	}
}
