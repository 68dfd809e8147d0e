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

	"github.com/alecthomas/kong"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// settings are the flags and the environment.
type settings struct {
	Address        string        `help:"Host and port to listen on; port 0 takes a free one." env:"MONGOEMU_ADDRESS" default:"127.0.0.1:27017"`
	ReplicaSet     string        `help:"Name of the replica set." env:"MONGOEMU_REPLICA_SET" default:"rs0"`
	DataDir        string        `help:"Directory to keep everything in, so that it survives a restart; in memory only if empty." env:"MONGOEMU_DATA_DIR"`
	OplogSize      int64         `help:"Bound of the oplog in MiB." env:"MONGOEMU_OPLOG_SIZE" default:"256"`
	ControlAddress string        `help:"Host and port of the HTTP endpoint that orders faults (see package mongoemu, Server.Handler); none if empty." env:"MONGOEMU_CONTROL_ADDRESS"`
	TTLInterval    time.Duration `help:"Time between two passes over TTL indexes." env:"MONGOEMU_TTL_INTERVAL" default:"60s"`
	NoopInterval   time.Duration `help:"Time after which an idle oplog moves on." env:"MONGOEMU_NOOP_INTERVAL" default:"10s"`
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	var o settings
	exit := -1
	parser, err := kong.New(&o,
		kong.Name("mongoemu"),
		kong.Description("A stand-in for MongoDB, for development and tests: a single-node replica set. Prints its connection string and runs until SIGINT or SIGTERM."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = code }),
	)
	if err != nil {
		fmt.Fprintln(stderr, "mongoemu:", err)
		return 1
	}
	_, err = parser.Parse(args)
	switch {
	case exit >= 0:
		return exit
	case err != nil:
		fmt.Fprintln(stderr, "mongoemu:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, o, stdout); err != nil {
		fmt.Fprintln(stderr, "mongoemu:", err)
		return 1
	}
	return 0
}

// serve runs the server, and the control endpoint beside it, until ctx ends.
func serve(ctx context.Context, o settings, stdout io.Writer) (err error) {
	s, err := mongoemu.New(mongoemu.Config{
		Address: o.Address, ReplicaSet: o.ReplicaSet, OplogBytes: o.OplogSize << 20, DataDir: o.DataDir,
		TTLInterval: o.TTLInterval, NoopInterval: o.NoopInterval,
	})
	if err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	fmt.Fprintln(stdout, s.URI())
	if o.ControlAddress == "" {
		<-ctx.Done()
		return nil
	}
	l, err := net.Listen("tcp", o.ControlAddress)
	if err != nil {
		return fmt.Errorf("listen for orders: %w", err)
	}
	fmt.Fprintf(stdout, "control http://%s\n", l.Addr())
	h := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve orders: %w", err)
	case <-ctx.Done():
	}
	err = h.Close()
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
