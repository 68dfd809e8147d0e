package proc_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-cdc/penstock/integration/proc"
)

// TestTerminalsInterruptDoesNotReachPrograms checks that a program is in another process
// group than its parent. A terminal sends the signal of Ctrl-C to the whole group of the
// parent, and a service that receives two signals aborts.
func TestTerminalsInterruptDoesNotReachPrograms(t *testing.T) {
	t.Parallel()
	p, err := proc.Start(proc.Spec{
		Name: "ps", Binary: "/bin/sh", Args: []string{"-c", "read -r pid comm state ppid pgrp rest </proc/self/stat; echo $ppid $pgrp"}, LogDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(p.Log)
	if err != nil {
		t.Fatal(err)
	}
	var parent, group int
	if _, err := fmt.Sscan(strings.TrimSpace(string(log)), &parent, &group); err != nil {
		t.Skipf("no /proc here: %s", log)
	}
	if parent != os.Getpid() || group == syscall.Getpgrp() {
		t.Errorf("the child of %d has the parent %d and the group %d, which is its parent's", os.Getpid(), parent, group)
	}
}
