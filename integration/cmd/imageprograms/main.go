// Command imageprograms is the programs of the images with which make test-containers
// replaces those of MongoDB and SQL Server, where those cannot be pulled. It acts by the
// name under which it is called:
//
//   - mongod serves mongoemu on port 27017, and takes the arguments that testcontainers-go
//     gives to MongoDB's;
//   - mongosh evaluates the expressions with which testcontainers-go makes a replica set;
//   - nc tries a port, as the shell command does with which testcontainers-go waits for one;
//   - sqlservr answers connections on SQL Server's port. Microsoft's Service Bus emulator
//     has its data there, and the stand-in needs none.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/penstock-cdc/penstock/integration/cmd/internal/program"
)

// programs are the programs by their names.
var programs = map[string]func(ctx context.Context, args []string, stdout io.Writer) error{
	"mongod": mongod, "mongosh": mongosh, "nc": nc, "sqlservr": sqlservr,
}

func main() {
	name := filepath.Base(os.Args[0])
	program.Main(name, func(ctx context.Context, args []string, stdout, _ io.Writer) error {
		run := programs[name]
		if run == nil {
			return fmt.Errorf("%q is none of its programs", name)
		}
		return run(ctx, args, stdout)
	})
}
