// Command sandbox runs events through the whole pipeline on this machine, with stand-ins
// for MongoDB and Service Bus, kills the leading publisher, changes a projection while
// events arrive, erases a person, and checks every read model. Run it with `make demo`.
package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/penstock-cdc/penstock/integration/cmd/internal/program"
	"github.com/penstock-cdc/penstock/pkg/cli"
)

var info = cli.Info{
	Name:        "sandbox",
	Description: "Run events through the whole pipeline on this machine, kill the leader, change a projection while events arrive, erase a person, and check every read model.",
}

func main() { program.Main(info.Name, run) }

// run runs the demo until it is complete or ctx ends. It fails if the result is not OK.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var c config
	if _, err := cli.Parse(&c, info, args, os.LookupEnv, stdout, stderr); err != nil {
		return err
	}
	ok, err := c.run(ctx)
	if err != nil {
		return err
	}
	if !ok {
		return errors.New("the demo did not succeed: each line above that starts with \"wrong:\" is a reason")
	}
	return nil
}
