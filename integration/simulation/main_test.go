package simulation

import "testing"

func TestMain(m *testing.M) {
	if !advanceWithMutexes() {
		panic("wait reasons")
	}
	m.Run()
}
