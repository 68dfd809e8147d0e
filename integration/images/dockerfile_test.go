package images_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The Dockerfiles must give images the same configuration as the builder. Other tests
// compare the archives with the same expected values.
func TestDockerfileGivesTheConfigurationOfTheArchive(t *testing.T) {
	for _, service := range services {
		t.Run(service, func(t *testing.T) {
			stages := dockerfile(t, service)
			build, last := stages[len(stages)-2], stages[len(stages)-1]
			for instruction, want := range map[string]string{
				"FROM":       "scratch",
				"USER":       expectedUser,
				"EXPOSE":     expectedPorts[service],
				"ENTRYPOINT": `["/` + service + `"]`,
				"COPY":       "--from=build --chmod=0555 /out/" + service + " /" + service + "; --from=build --chmod=0444 /out/LICENSE /out/third-party-notices.txt /licenses/",
			} {
				if got := strings.Join(last[instruction], "; "); got != want {
					t.Errorf("%s is %q, not %q", instruction, got, want)
				}
			}
			got := make(map[string]string)
			for _, label := range last["LABEL"] {
				key, value, _ := strings.Cut(label, "=")
				got[key] = strings.Trim(value, `"`)
			}
			want := fixedLabels(service)
			want[labels+"version"], want[labels+"revision"], want[labels+"created"] = "$VERSION", "$REVISION", "$CREATED"
			if !maps.Equal(got, want) {
				t.Errorf("the labels are %q, not %q", got, want)
			}
			if env := build["ENV"]; len(env) != 1 || env[0] != "CGO_ENABLED=0 GOWORK=off GOFLAGS=-trimpath" {
				t.Errorf("the binary is built with %q", env)
			}
			for _, part := range []string{"-buildvcs=false", `"-s -w -X `, "/pkg/cli.release=$VERSION ", `/pkg/cli.revision=$REVISION"`, "notices.sh /out/" + service} {
				if !strings.Contains(build["RUN"][0], part) {
					t.Errorf("the build has no %s: %s", part, build["RUN"][0])
				}
			}
			release := capture(t, service+"/Dockerfile", `^ARG GO_VERSION=(.*)$`)
			if named := capture(t, service+"/go.mod", `^go (.*)$`); !strings.HasPrefix(named, release+".") {
				t.Errorf("the Dockerfile builds with Go %s, and go.mod names %s", release, named)
			}
			// Without this line, the archives can be built with a release that lacks fixes.
			if toolchain := capture(t, service+"/go.mod", `^toolchain go(.*)$`); !strings.HasPrefix(toolchain, release+".") || toolchain != capture(t, "go.work", `^toolchain go(.*)$`) {
				t.Errorf("the Dockerfile builds with Go %s, and go.mod names the toolchain %s", release, toolchain)
			}
		})
	}
}

// dockerfile returns the arguments of each instruction, by stage. The instructions before
// the first FROM count as a stage, too.
func dockerfile(t *testing.T, service string) []map[string][]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, service, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	stages := []map[string][]string{{}}
	for line := range strings.Lines(strings.ReplaceAll(string(content), "\\\n", "")) {
		instruction, arguments, _ := strings.Cut(strings.TrimSpace(line), " ")
		if instruction == "" || strings.HasPrefix(instruction, "#") {
			continue
		}
		if instruction == "FROM" {
			stages = append(stages, map[string][]string{})
		}
		stage := stages[len(stages)-1]
		stage[instruction] = append(stage[instruction], arguments)
	}
	if len(stages) != 3 {
		t.Fatalf("the Dockerfile has %d stages, not a build and an image", len(stages)-1)
	}
	return stages
}
