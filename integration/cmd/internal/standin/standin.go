package standin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Server is a stand-in that has not been started.
type Server struct {
	Start func() error
	Close func() error
	// Connect returns the string that clients connect with. It is called after the start.
	Connect func() string
	// AddressFlags names the flags that set the listening addresses.
	AddressFlags string
	// Control serves its control API.
	Control http.Handler
	// Done returns a channel that is closed when the server ends by itself. It is called
	// after the start. Done is nil if the server never ends by itself. Close returns the
	// reason.
	Done func() <-chan struct{}
}

// Serve starts the server, and its control API if controlAddress is set. It prints how to
// reach them, and closes both when ctx or the server ends.
func (s Server) Serve(ctx context.Context, controlAddress string, stdout io.Writer) (err error) {
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Start(); err != nil {
		return explain(err, s.AddressFlags)
	}
	if controlAddress != "" {
		address, stop, err := serveControl(ctx, controlAddress, s.Control)
		if err != nil {
			return explain(err, "--control-address")
		}
		defer stop()
		fmt.Fprintf(stdout, "control: http://%s\n", address)
	}
	// Print this line last: a caller that waits for it can then use everything printed
	// before.
	fmt.Fprintln(stdout, s.Connect())
	var ended <-chan struct{}
	if s.Done != nil {
		ended = s.Done()
	}
	select {
	case <-ctx.Done():
	case <-ended:
	}
	return nil
}

// explain adds the remedy to the error of a port that is in use.
func explain(err error, flags string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: stop what listens there, or choose another by %s", err, flags)
	}
	return err
}

// serveControl serves the control API. It returns the address and a function that stops
// the API.
func serveControl(ctx context.Context, address string, handler http.Handler) (net.Addr, func(), error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("listen for control: %w", err)
	}
	h := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Serve(l)
	}()
	return l.Addr(), func() {
		_ = h.Close()
		<-done
	}, nil
}
