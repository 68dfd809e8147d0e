// Command sbemu runs the stand-in for Azure Service Bus: an AMQP server on a
// loopback port that the unmodified SDKs connect to, for development and
// tests. Everything it holds is in memory and gone when it stops.
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

	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/sbemu/control"
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
		fmt.Fprintln(os.Stderr, "sbemu:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	if err := cli.Parse(&o, info, args, os.LookupEnv, stdout, stderr); err != nil {
		return err
	}

	cfg, err := o.config()
	if err != nil {
		return err
	}

	srv, err := sbemu.New(cfg)
	if err != nil {
		return fmt.Errorf("declare namespace: %w", err)
	}

	if err := srv.Start(); err != nil {
		return explain(err, "--address, --tls-address or --admin-address")
	}

	defer func() { _ = srv.Close() }()

	if o.ControlAddress != "" {
		address, stop, err := serveControl(ctx, o.ControlAddress, srv)
		if err != nil {
			return explain(err, "--control-address")
		}

		defer stop()

		fmt.Fprintf(stdout, "control: http://%s\n", address)
	}

	// Last, so that who waits for this line finds all that was promised.
	fmt.Fprintln(stdout, srv.ConnectionString())
	<-ctx.Done()

	return nil
}

// explain adds the remedy to an error of a port that is taken.
func explain(err error, flags string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: stop what listens there, or choose another by %s", err, flags)
	}

	return err
}

// serveControl serves the control API and returns its address and what stops
// it.
func serveControl(ctx context.Context, address string, srv *sbemu.Server) (net.Addr, func(), error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("listen for control: %w", err)
	}

	h := &http.Server{Handler: control.NewHandler(srv), ReadHeaderTimeout: 10 * time.Second}
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
