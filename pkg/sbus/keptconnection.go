package sbus

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
)

// closeTimeout bounds the end of a connection.
const closeTimeout = time.Second

// Closer is a connection that [Kept] closes.
type Closer interface {
	Close(ctx context.Context) error
}

// Kept is a connection that is opened when it is needed, and kept between uses. Make it
// with [Keep]. One goroutine uses it.
type Kept[C Closer] struct {
	dial   func() (C, error)
	logger zerolog.Logger
	open   bool
	// connection is the one of the last use. It is used only if open is set.
	connection C
}

// Keep makes a kept connection; it opens none yet.
func Keep[C Closer](dial func() (C, error), logger zerolog.Logger) *Kept[C] {
	return &Kept[C]{dial: dial, logger: logger}
}

// Use calls do with the connection of the last use, or with a new one. The broker closes
// connections and links that are idle: if the connection of the last use is lost, Use calls
// do again with a new one, so do begins from the start each time. After an error the
// connection is closed, unless the broker only throttles and the links still work. If ctx
// has ended, the error wraps its cause too.
func (k *Kept[C]) Use(ctx context.Context, do func(C) error) error {
	kept := k.open
	err := k.once(do)
	if kept && Classify(err) == ClassConnectionLost {
		k.Close()
		err = k.once(do)
	}
	if err == nil {
		return nil
	}
	if Classify(err) != ClassBusy || Broken(err) {
		k.Close()
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

func (k *Kept[C]) once(do func(C) error) error {
	if !k.open {
		connection, err := k.dial()
		if err != nil {
			return fmt.Errorf("open a connection: %w", err)
		}
		k.connection, k.open = connection, true
	}
	return do(k.connection)
}

// Close closes the connection, if one is open. The next use opens another one.
func (k *Kept[C]) Close() {
	if !k.open {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := k.connection.Close(ctx); err != nil {
		k.logger.Debug().Err(err).Msg("connection not closed cleanly")
	}
	var none C
	k.connection, k.open = none, false
}
