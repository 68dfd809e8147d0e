package proc

import (
	"fmt"
	"os"
	"strings"
)

// MaxResident is the most memory that the running process has had so far, in bytes. It
// reads Linux's /proc; elsewhere it is an error. The usage that a process leaves behind
// at its end does not serve: it includes what its parent had when it started it.
func (p *Process) MaxResident() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of %s: %w", p.Name, err)
	}
	for line := range strings.Lines(string(status)) {
		var kilobytes int64
		if n, err := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); n == 1 && err == nil {
			return kilobytes << 10, nil
		}
	}
	return 0, fmt.Errorf("read the memory of %s: there is no VmHWM in %q", p.Name, status)
}
