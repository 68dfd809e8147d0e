package cli

import (
	"runtime/debug"
	"strings"
)

// Version is the version of the running program as its build recorded it: the
// module's version, the commit and the Go release, as far as they are known.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return describeBuild(info)
}

func describeBuild(info *debug.BuildInfo) string {
	version := info.Main.Version
	if version == "" {
		version = "(devel)"
	}
	var notes []string
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision" && setting.Value != "":
			const short = 12
			notes = append(notes, setting.Value[:min(short, len(setting.Value))])
		case setting.Key == "vcs.modified" && setting.Value == "true":
			notes = append(notes, "modified")
		}
	}
	return version + " (" + strings.Join(append(notes, info.GoVersion), ", ") + ")"
}
