//go:build unix

package operate

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/config"
)

// A pipe without a writer has no end. SIGTERM ends the context.
func TestCheckOfAPipeEnds(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := (&checkCommand{Paths: []string{pipe}}).run(ctx, &Environment{stdout: io.Discard, stderr: io.Discard, Config: config.Config{}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the command ended with %v", err)
	}
	// The reader gets its end.
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Error(err)
	}
}
