// Command projector keeps read models in MongoDB up to date with the events of a
// topic of Azure Service Bus.
package main

import (
	"os"

	"github.com/penstock-cdc/penstock/projector/app"
)

func main() { os.Exit(app.Main()) }
