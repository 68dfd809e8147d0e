package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// serve starts the server, prints how to reach it, and closes it when ctx or the server
// ends.
func serve(ctx context.Context, s *mongoemu.Server, stdout io.Writer) (err error) {
	defer func() { err = errors.Join(err, s.Close()) }()

	if err := s.Start(); errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: stop what listens there, or choose another by --address", err)
	} else if err != nil {
		return err
	}

	fmt.Fprintln(stdout, s.URI())
	select {
	case <-ctx.Done():
	case <-s.Done():
	}

	return nil
}
