package harness

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// sleeperVariable makes this test binary a process that does nothing.
const sleeperVariable = "HARNESS_TEST_SLEEP"

// sleeper returns the path of a program that does nothing until it is killed.
func sleeper(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func TestMain(m *testing.M) {
	if os.Getenv(sleeperVariable) != "" {
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
		<-ended
		return
	}
	os.Exit(m.Run())
}
