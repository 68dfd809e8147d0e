package secret

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

const (
	// Interval is the time between two readings of a file that is followed. The kubelet
	// takes about a minute to update a mounted Secret, so a shorter one gains nothing.
	Interval = 5 * time.Second
	// maxBytes bounds a secret. A Secret of Kubernetes has at most 1 MiB; a connection
	// string has some hundred bytes.
	maxBytes = 64 << 10
)

// Read returns the secret in a file, without white space around it. Errors do not show it.
func Read(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read a secret: %w", err)
	case len(content) > maxBytes:
		return "", fmt.Errorf("read a secret: %s has more than %d bytes", path, maxBytes)
	}
	secret := strings.TrimSpace(string(content))
	if secret == "" {
		return "", fmt.Errorf("read a secret: %s is empty", path)
	}
	return secret, nil
}

// Follow reads a file at every [Interval] until ctx ends. It passes a secret that differs
// from current to adopt. If adopt returns an error, the old secret stays current, and adopt
// gets the new one again at the next reading. The refusal of a secret is logged at once, and then
// every ten minutes: the reason can change.
func Follow(ctx context.Context, path, current string, adopt func(ctx context.Context, secret string) error, logger zerolog.Logger) {
	logged, at := "", time.Time{}
	for poll.Wait(ctx, Interval) == nil {
		secret, err := Read(path)
		// Service Bus gives each refusal of the same secret a text of its own.
		failed := secret
		if err != nil {
			failed = err.Error()
		} else if secret != current {
			if err = adopt(ctx, secret); err == nil {
				current = secret
				logger.Info().Str("file", path).Msg("secret changed; the new one is in use")
			}
		}
		switch {
		case ctx.Err() != nil:
		case err == nil:
			logged = ""
		case failed != logged || time.Since(at) >= 10*time.Minute:
			logged, at = failed, time.Now()
			logger.Warn().Err(err).Str("file", path).Msg("changed secret not usable; the old one stays in use")
		}
	}
}
