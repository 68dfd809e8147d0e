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

// CPUTime returns the processor time that the running process and the programs that it has
// started have used so far, in user and in system mode. It reads Linux's /proc; on other
// systems it returns an error.
func (p *Process) CPUTime() (time.Duration, error) {
	ticks, err := p.sum(func(id int) (int64, error) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		if err != nil {
			return 0, err
		}
		// The second field is the program's name in brackets, which may hold spaces.
		rest := stat[bytes.LastIndexByte(stat, ')')+1:]
		var state string
		var skipped [10]int64
		var user, system int64
		_, err = fmt.Sscan(string(rest), &state, &skipped[0], &skipped[1], &skipped[2], &skipped[3], &skipped[4],
			&skipped[5], &skipped[6], &skipped[7], &skipped[8], &skipped[9], &user, &system)
		if err != nil {
			return 0, fmt.Errorf("find the processor time in %q: %w", rest, err)
		}
		return user + system, nil
	})
	return time.Duration(ticks) * time.Second / ticksPerSecond, err
}
