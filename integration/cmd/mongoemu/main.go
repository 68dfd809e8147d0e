// Command mongoemu runs the MongoDB stand-in by itself; package mongoemu documents which
// commands it covers.
package main

import (
	"context"
	"io"
	"os"

	"github.com/penstock-cdc/penstock/integration/cmd/internal/program"
	"github.com/penstock-cdc/penstock/integration/cmd/internal/standin"
	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/pkg/cli"
)

func main() { program.Main(info.Name, run) }

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	if err := cli.Parse(&o, info, args, os.LookupEnv, stdout, stderr); err != nil {
		return err
	}
	s, err := mongoemu.New(o.config())
	if err != nil {
		return err
	}
	return standin.Server{
		Start: s.Start, Close: s.Close, Connect: s.URI, AddressFlags: "--address", Control: s.Handler(), Done: s.Done,
	}.Serve(ctx, o.ControlAddress, stdout)
}
