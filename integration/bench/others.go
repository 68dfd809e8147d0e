package bench

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// processorTime is how much processor time the machine has spent so far, and how much of it
// this process and its children that have ended. What the host of a virtual machine kept
// for itself counts as spent.
type processorTime struct {
	at         time.Time
	spent, own time.Duration
}

// jiffiesPerSecond is the unit of /proc/stat, 100 on every Linux that Go supports.
const jiffiesPerSecond = 100

func readProcessorTime() (processorTime, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return processorTime{}, fmt.Errorf("read the machine's processor time: %w", err)
	}
	var user, nice, system, idle, waiting, interrupts, softInterrupts, stolen int64
	if _, err := fmt.Sscanf(string(stat), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &waiting, &interrupts, &softInterrupts, &stolen); err != nil {
		return processorTime{}, fmt.Errorf("read the machine's processor time: %w", err)
	}
	p := processorTime{at: time.Now(), spent: time.Duration(user+nice+system+interrupts+softInterrupts+stolen) * time.Second / jiffiesPerSecond}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if err := syscall.Getrusage(who, &used); err != nil {
			return processorTime{}, fmt.Errorf("read the own processor time: %w", err)
		}
		p.own += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	return p, nil
}

// others returns which part of the cores, in percent, other processes used since before.
func (p processorTime) others(before processorTime) float64 {
	cores := time.Duration(runtime.NumCPU()) * p.at.Sub(before.at)
	if cores <= 0 {
		return 0
	}
	used := (p.spent - before.spent) - (p.own - before.own)
	return 100 * max(0, float64(used)/float64(cores))
}

// maxOthers returns the largest part of the cores that other processes used during a
// measurement, in percent, and its row; "" if nothing was measured.
func (r *Report) maxOthers() (percent float64, row string) {
	for _, one := range r.Rows {
		if len(one.Others) > 0 && (row == "" || slices.Max(one.Others) > percent) {
			percent, row = slices.Max(one.Others), one.Name
		}
	}
	return percent, row
}
