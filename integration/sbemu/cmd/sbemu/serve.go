package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// serve starts the server, and its HTTP port if that has an address. It prints how to reach
// them, and closes both when ctx ends.
func serve(ctx context.Context, srv *sbemu.Server, o options, stdout io.Writer) (err error) {
	defer func() { err = errors.Join(err, srv.Close()) }()

	if err := srv.Start(); err != nil {
		return explain(err, "--address, --tls-address or --admin-address")
	}

	if o.HTTPAddress != "" {
		address, stop, err := serveHTTP(ctx, o.HTTPAddress, emulatorHandler(srv))
		if err != nil {
			return explain(err, "--http-address")
		}
		defer stop()

		fmt.Fprintf(stdout, "administration: http://%s\n", address)
	}

	// This line is the last one: a caller that waits for it can use everything printed
	// before.
	fmt.Fprintln(stdout, srv.ConnectionString())
	<-ctx.Done()

	return nil
}

// explain adds the remedy to the error of a port that is in use.
func explain(err error, flags string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: stop what listens there, or choose another by %s", err, flags)
	}

	return err
}

// serveHTTP serves a handler. It returns the address and a function that stops it.
func serveHTTP(ctx context.Context, address string, handler http.Handler) (net.Addr, func(), error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("listen on %s: %w", address, err)
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
