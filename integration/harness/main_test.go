package harness

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// sleeperVariable makes the test's own program a process that does nothing.
const sleeperVariable = "HARNESS_TEST_SLEEP"

// sleeper is a program that does nothing until it is ended.
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
