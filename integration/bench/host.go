package bench

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Host describes the machine and the revision of the figures.
type Host struct {
	CPU     string
	Cores   int
	System  string
	Go      string
	Commit  string
	Time    string
	Latency string
	Rounds  int
	// LoadBefore is the machine's load average over the minute before the run. Above about
	// 0.5, other processes used the machine, and only the ratios are meaningful.
	LoadBefore string
}

func describeHost(ctx context.Context, o *Options) Host {
	h := Host{
		CPU: "unknown", Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		Commit: "unknown", Time: time.Now().UTC().Format(time.RFC3339), LoadBefore: "unknown", Rounds: o.Rounds,
		Latency: "broker " + o.Latency.String() + " each way",
	}
	if described, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude", "*").Output(); err == nil {
		h.Commit = strings.TrimSpace(string(described))
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				h.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		h.LoadBefore, _, _ = strings.Cut(string(load), " ")
	}
	return h
}
