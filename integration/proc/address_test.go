package proc_test

import (
	"sync"
	"testing"

	"github.com/penstock-cdc/penstock/integration/proc"
)

// Programs that start at the same time bind their ports later, so no two of them may get
// the same port.
func TestAddressesAreGivenOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := make(map[string]bool)
	for range 4 {
		wg.Go(func() {
			for range 300 {
				address, err := proc.FreeAddress()
				mu.Lock()
				if err != nil || seen[address] {
					t.Errorf("given %s again (%v)", address, err)
				}
				seen[address] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}
