package cli

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// release is the version, and revision the commit (with "-dirty" appended if files differ
// from it). The linker sets them with -X in builds that cannot read them from a repository.
var release, revision string

// Version is the version of the running program: the module's version or that of the
// release, the commit if the linker has set it, and the Go release.
func Version() string {
	const short = 12
	version, notes := "(devel)", runtime.Version()
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(info.Main.Version, version)
	}
	if revision != "" {
		notes = revision[:min(short, len(revision))] + ", " + notes
	}
	return cmp.Or(release, version) + " (" + notes + ")"
}
