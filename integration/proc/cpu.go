package proc

import (
	"bytes"
	"fmt"
	"os"
	"time"
)

// ticksPerSecond is the unit of times in /proc, the same on every platform that Go
// supports.
const ticksPerSecond = 100

// CPUTime returns the processor time that the running process has used so far, in user and
// in system mode. It reads Linux's /proc; on other systems it returns an error.
func (p *Process) CPUTime() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the processor time of %s: %w", p.Name, err)
	}
	// The second field is the program's name in brackets, which may hold spaces.
	rest := stat[bytes.LastIndexByte(stat, ')')+1:]
	var state string
	var skipped [10]int64
	var user, system int64
	_, err = fmt.Sscan(string(rest), &state, &skipped[0], &skipped[1], &skipped[2], &skipped[3], &skipped[4],
		&skipped[5], &skipped[6], &skipped[7], &skipped[8], &skipped[9], &user, &system)
	if err != nil {
		return 0, fmt.Errorf("read the processor time of %s in %q: %w", p.Name, rest, err)
	}
	return time.Duration(user+system) * time.Second / ticksPerSecond, nil
}
