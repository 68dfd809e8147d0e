package proc

import (
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
)

// sum adds up a quantity of the program and of the programs that it has started: of all
// running processes of its group. It reads Linux's /proc.
func (p *Process) sum(quantity func(id int) (int64, error)) (total int64, err error) {
	if total, err = quantity(p.cmd.Process.Pid); err != nil {
		return 0, fmt.Errorf("read what %s has used: %w", p.Name, err)
	}
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, fmt.Errorf("list the processes: %w", err)
	}
	for _, path := range paths {
		id, _ := strconv.Atoi(filepath.Base(path))
		group, err := syscall.Getpgid(id)
		if err != nil || group != p.cmd.Process.Pid || id == group {
			continue
		}
		if n, err := quantity(id); err == nil { // otherwise it has ended
			total += n
		}
	}
	return total, nil
}

// KillGroup ends the program, and the programs that it has started and that outlive it.
func (p *Process) KillGroup() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.Kill()
}
