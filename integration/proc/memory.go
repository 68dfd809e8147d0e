package proc

import (
	"fmt"
	"os"
	"strings"
)

// MaxResident returns the largest resident memory of the running process so far, in bytes,
// and adds that of the programs that it has started. It reads Linux's /proc; on other
// systems it returns an error. The usage reported at the end of a process is not suitable,
// because it includes the memory of the parent at the time of the start.
func (p *Process) MaxResident() (int64, error) {
	return p.sum(func(id int) (int64, error) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", id))
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(status)) {
			var kilobytes int64
			if n, err := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); n == 1 && err == nil {
				return kilobytes << 10, nil
			}
		}
		return 0, fmt.Errorf("there is no VmHWM in %q", status)
	})
}
