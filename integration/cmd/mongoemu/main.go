// Command mongoemu runs the MongoDB stand-in by itself; see package mongoemu for
// what it covers.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/pkg/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case err == nil, errors.Is(err, cli.ErrHelp):
	case errors.Is(err, cli.ErrUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "mongoemu:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	var o options
	if err := cli.Parse(&o, info, args, os.LookupEnv, stdout, stderr); err != nil {
		return err
	}
	s, err := mongoemu.New(o.config())
	if err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return explain(err, "--address")
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if o.ControlAddress != "" {
		address, stop, err := serveControl(ctx, o.ControlAddress, s)
		if err != nil {
			return explain(err, "--control-address")
		}
		defer stop()
		fmt.Fprintf(stdout, "control: http://%s\n", address)
	}
	// Last, so that who waits for this line finds all that was promised.
	fmt.Fprintln(stdout, s.URI())
	<-ctx.Done()
	return nil
}

// explain adds the remedy to an error of a port that is taken.
func explain(err error, flag string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: stop what listens there, or choose another by %s", err, flag)
	}
	return err
}

// serveControl serves the control API and returns its address and what stops it.
func serveControl(ctx context.Context, address string, s *mongoemu.Server) (net.Addr, func(), error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("listen for control: %w", err)
	}
	h := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
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
