package cli

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
)

func TestDescribeBuild(t *testing.T) {
	t.Parallel()
	for want, build := range map[string]struct {
		release, revision string
		info              debug.BuildInfo
	}{
		"(devel) (go1.26.0)": {},
		"v1.2.3 (0123456789ab, go1.26.0)": {info: debug.BuildInfo{
			Main:     debug.Module{Version: "v1.2.3"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "false"}},
		}},
		"(devel) (abc, modified, go1.26.0)": {info: debug.BuildInfo{
			Main:     debug.Module{Version: "(devel)"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: ""}},
		}},
		"1.2.3 (0123456789ab, go1.26.0)":  {release: "1.2.3", revision: "0123456789abcdef", info: debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}},
		"1.2.3 (abc, modified, go1.26.0)": {release: "1.2.3", revision: "abc-dirty"},
	} {
		build.info.GoVersion = "go1.26.0"
		if got := describeBuild(&build.info, build.release, build.revision); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFlatten(t *testing.T) {
	t.Parallel()
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	for _, x := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{a, "a"},
		{errors.Join(a, nil, errors.Join(b, c)), "a|b|c"},
		{errors.Join(a, fmt.Errorf("%w of %w", b, c)), "a|b of c"},
		{fmt.Errorf("in: %w", errors.Join(a, b)), "in: a\nb"},
	} {
		var got []string
		for _, err := range flatten(x.err) {
			got = append(got, err.Error())
		}
		if got := strings.Join(got, "|"); got != x.want {
			t.Errorf("%v: got %q", x.err, got)
		}
	}
}
