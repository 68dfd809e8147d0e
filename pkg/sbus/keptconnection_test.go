package sbus_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/Azure/go-amqp"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// line is a connection with a number; the list has the closed ones.
type line struct {
	number int
	closed *[]int
}

func (l line) Close(context.Context) error {
	*l.closed = append(*l.closed, l.number)
	return nil
}

// lines dials numbered connections.
type lines struct {
	dialed int
	closed []int
}

func (l *lines) dial() (line, error) {
	l.dialed++
	return line{l.dialed, &l.closed}, nil
}

func TestKeptConnectionServesUntilItFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error // of the connection of the first use
		used   []int // by the second use
		closed []int
		fails  bool
	}{
		"works":              {nil, []int{1}, nil, false},
		"is lost":            {&amqp.ConnError{}, []int{1, 2}, []int{1}, false},
		"throttles":          {condition("com.microsoft:server-busy"), []int{1}, nil, true},
		"throttles the link": {&amqp.LinkError{RemoteErr: condition("com.microsoft:server-busy")}, []int{1}, []int{1}, true},
		"fails":              {errors.New("no"), []int{1}, []int{1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l lines
			kept := sbus.Keep(l.dial, zerolog.Nop())
			if err := kept.Use(t.Context(), func(line) error { return nil }); err != nil {
				t.Fatal(err)
			}
			var used []int
			err := kept.Use(t.Context(), func(on line) error {
				used = append(used, on.number)
				if on.number == 1 {
					return c.err
				}
				return nil
			})
			if !slices.Equal(used, c.used) || !slices.Equal(l.closed, c.closed) || (err != nil) != c.fails {
				t.Errorf("used %v and closed %v with error %v, want %v and %v", used, l.closed, err, c.used, c.closed)
			}
		})
	}
}

func TestUseDoesNotRetryOnANewConnection(t *testing.T) {
	t.Parallel()
	var l lines
	kept := sbus.Keep(l.dial, zerolog.Nop())
	err := kept.Use(t.Context(), func(line) error { return &amqp.ConnError{} })
	if err == nil || l.dialed != 1 || !slices.Equal(l.closed, []int{1}) {
		t.Errorf("dialed %d and closed %v with error %v", l.dialed, l.closed, err)
	}
}

func TestUseReturnsTheCauseOfItsContext(t *testing.T) {
	t.Parallel()
	slow := errors.New("slow")
	ctx, cancel := context.WithCancelCause(t.Context())
	var l lines
	err := sbus.Keep(l.dial, zerolog.Nop()).Use(ctx, func(line) error {
		cancel(slow)
		return ctx.Err()
	})
	if !errors.Is(err, slow) {
		t.Errorf("error %v does not wrap the cause", err)
	}
}

func TestKeptConnectionIsClosedOnce(t *testing.T) {
	t.Parallel()
	var l lines
	kept := sbus.Keep(l.dial, zerolog.Nop())
	kept.Close()
	for range 2 {
		if err := kept.Use(t.Context(), func(line) error { return nil }); err != nil {
			t.Fatal(err)
		}
		kept.Close()
		kept.Close()
	}
	if !slices.Equal(l.closed, []int{1, 2}) {
		t.Errorf("closed %v", l.closed)
	}
}
