// Command sbemu runs the stand-in for Azure Service Bus: an AMQP server on a loopback
// port that the unmodified SDKs connect to, for development and tests. All its data is in
// memory and is lost when it stops.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/penstock-cdc/penstock/integration/cmd/internal/program"
	"github.com/penstock-cdc/penstock/integration/cmd/internal/standin"
	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/sbemu/control"
	"github.com/penstock-cdc/penstock/pkg/cli"
)

func main() { program.Main(info.Name, run) }

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

	return standin.Server{
		Start: srv.Start, Close: srv.Close, Connect: srv.ConnectionString,
		AddressFlags: "--address, --tls-address or --admin-address", Control: control.NewHandler(srv),
	}.Serve(ctx, o.ControlAddress, stdout)
}
