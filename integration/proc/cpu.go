package proc

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"
)

// ticksPerSecond is the unit of times in /proc, the same on every platform that Go
// supports.
const ticksPerSecond = 100

// CPUTime returns the processor time that the running process has used so far, in user and in
// system mode. It reads Linux's /proc; on other systems it returns an error.
func (p *Process) CPUTime() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read what %s has used: %w", p.Name, err)
	}
	// The second field is the program's name in brackets, which may hold spaces. User and system
	// time are the 12th and the 13th after it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var user, system int64
	if _, err := fmt.Sscan(strings.Join(fields[11:13], " "), &user, &system); err != nil {
		return 0, fmt.Errorf("find the processor time of %s in %q: %w", p.Name, stat, err)
	}
	return time.Duration(user+system) * time.Second / ticksPerSecond, nil
}
