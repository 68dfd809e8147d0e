package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"time"
)

// nc connects to the host and port that its arguments name, and closes the connection.
func nc(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("nc", flag.ContinueOnError)
	flags.Bool("vz", false, "print the outcome, and send nothing")
	seconds := flags.Int("w", 1, "how many `seconds` to wait")
	if err := flags.Parse(args); err != nil {
		return err
	}
	address := net.JoinHostPort(flags.Arg(0), flags.Arg(1))
	dialer := net.Dialer{Timeout: time.Duration(*seconds) * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, address, "open")
	return conn.Close()
}

// sqlservr accepts connections and says nothing, until ctx ends.
func sqlservr(ctx context.Context, _ []string, stdout io.Writer) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", ":1433")
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	fmt.Fprintln(stdout, "Recovery is complete. This is an informational message only. No user action is required.")
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		_ = conn.Close()
	}
}
