package bench

import (
	"fmt"
	"os"
	"runtime/debug"
)

// leastMemory is the memory limit of this process if the machine's memory is not known.
const leastMemory = 1 << 30

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
