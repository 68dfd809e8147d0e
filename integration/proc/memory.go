package proc

import (
	"fmt"
	"os"
	"strings"
)

// MaxResident returns the largest resident memory of the running process so far, in bytes. It
// reads Linux's /proc; on other systems it returns an error. The usage reported at the end of a
// process is not suitable, because it includes the memory of the parent at the time of the
// start.
func (p *Process) MaxResident() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read what %s has used: %w", p.Name, err)
	}
	for line := range strings.Lines(string(status)) {
		var kilobytes int64
		if n, err := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); n == 1 && err == nil {
			return kilobytes << 10, nil
		}
	}
	return 0, fmt.Errorf("there is no VmHWM of %s in %q", p.Name, status)
}
