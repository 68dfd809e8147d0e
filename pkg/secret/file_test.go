package secret_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/secret"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReadTrimsAndRefusesWhatIsNoSecret(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	write(t, path, " one two\n")
	if got, err := secret.Read(path); err != nil || got != "one two" {
		t.Errorf("got %q, %v", got, err)
	}
	for content, want := range map[string]string{"": "is empty", "\n": "is empty", strings.Repeat("x", 1<<20): "has more than 65536 bytes"} {
		write(t, path, content)
		if _, err := secret.Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v", len(content), err)
		}
	}
	if _, err := secret.Read(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// journal has what a follower does. Its test and its follower use it at the same time.
type journal struct {
	mu      sync.Mutex
	log     bytes.Buffer
	offered []string
	refusal error
}

// Write implements [io.Writer].
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.log.Write(p)
}

func (j *journal) adopt(_ context.Context, secret string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.offered = append(j.offered, secret)
	if j.refusal == nil {
		return nil
	}
	// Like the tracking id of Service Bus, the time makes each text another.
	return fmt.Errorf("%w at %v", j.refusal, time.Now())
}

// take returns what has happened since the last call, and sets the next refusal.
func (j *journal) take(refusal error) (offered []string, log string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	offered, log = j.offered, j.log.String()
	j.offered, j.refusal = nil, refusal
	j.log.Reset()
	return offered, log
}

// A new secret that cannot be used must not replace the old one, and is tried again.
func TestFollowAdoptsWhatCanBeUsed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	synctest.Test(t, func(t *testing.T) {
		write(t, path, "first")
		var j journal
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			secret.Follow(ctx, path, "first", j.adopt, zerolog.New(&j))
		}()
		pass := func() { <-time.After(2*secret.Interval + time.Second) }
		refusal := errors.New("refused by the server")
		pass()
		if offered, log := j.take(refusal); len(offered) != 0 || log != "" {
			t.Errorf("an unchanged secret was offered: %q, log %s", offered, log)
		}
		write(t, path, "second")
		pass()
		if offered, log := j.take(nil); !slices.Equal(offered, []string{"second", "second"}) || strings.Count(log, "\n") != 1 || !strings.Contains(log, refusal.Error()) {
			t.Errorf("offered %q, logged %s", offered, log)
		}
		j.take(refusal)
		write(t, path, "third")
		pass()
		if offered, log := j.take(nil); len(offered) != 2 || strings.Count(log, "\n") != 1 {
			t.Errorf("offered %q, logged %s of another secret", offered, log)
		}
		pass()
		if offered, log := j.take(nil); len(offered) != 1 || !strings.Contains(log, "the new one is in use") || strings.Contains(log, "second") {
			t.Errorf("offered %q, logged %s", offered, log)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		pass()
		if offered, log := j.take(nil); len(offered) != 0 || strings.Count(log, "\n") != 1 {
			t.Errorf("offered %q after the file was removed, logged %s", offered, log)
		}
		cancel()
		<-done
	})
}
