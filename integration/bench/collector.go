package bench

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// leastMemory is the memory limit of this process if the machine's memory is not known.
	leastMemory = 1 << 30
	// garbagePerEvent is about what this process allocates while an event passes both
	// services.
	garbagePerEvent = 40 << 10
)

// collectBetweenRows keeps Go's garbage collector out of the measurements of this process,
// until the returned function is called. This process has the stand-ins, with all events
// and read models in its heap. As the heap grows, its collector would use a quarter of
// the cores for seconds, and the services would wait for them: no MongoDB and no broker
// does that. So it runs only before each environment, and when half of the machine's memory
// is used. The services and the limits are other processes, whose collectors run as always.
func collectBetweenRows() (restore func()) {
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(max(leastMemory, machineMemory()/2))
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

// touchMemory makes the memory resident that this process will allocate while so many events
// pass. In a virtual machine, the first access to a page can take 7 µs, because the host
// gives the page only then. At full load that is a quarter of a core. The memory is free
// again after the next collection, and the runtime returns it to the system very slowly.
func touchMemory(events int) {
	const block = 64 << 20
	page := os.Getpagesize()
	// Without the garbage of the row before, the limit is not reached: the collector would run
	// within the row, and the runtime would return memory to the system.
	runtime.GC()
	bytes := min(int64(events)*garbagePerEvent, debug.SetMemoryLimit(-1)/4*3)
	blocks := make([][]byte, bytes/block)
	for i := range blocks {
		blocks[i] = make([]byte, block)
		for at := 0; at < block; at += page {
			blocks[i][at] = 1
		}
	}
}

// machineMemory returns the bytes of memory that the machine has, or 0 if it cannot be
// read.
func machineMemory() int64 {
	info, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer info.Close()
	var kib int64
	if _, err := fmt.Fscanf(info, "MemTotal: %d kB", &kib); err != nil {
		return 0
	}
	return kib << 10
}
