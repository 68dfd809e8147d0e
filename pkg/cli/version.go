package cli

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// release is the version, and revision the commit (with "-dirty" appended if files differ
// from it). The linker sets them with -X in builds that cannot read them from a repository.
var release, revision string

// Version is the version of the running program: the module's version or that of the
// release, the commit and the Go release, as far as the build has recorded them.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(release, "unknown")
	}
	return describeBuild(info, release, revision)
}

func describeBuild(info *debug.BuildInfo, release, revision string) string {
	commit, modified := strings.CutSuffix(revision, "-dirty")
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			commit = cmp.Or(commit, setting.Value)
		case "vcs.modified":
			modified = modified || setting.Value == "true"
		}
	}
	var notes []string
	if commit != "" {
		const short = 12
		notes = append(notes, commit[:min(short, len(commit))])
	}
	if modified {
		notes = append(notes, "modified")
	}
	return cmp.Or(release, info.Main.Version, "(devel)") + " (" + strings.Join(append(notes, info.GoVersion), ", ") + ")"
}
