// Command publisher brings the events of a MongoDB event store to a topic of Azure
// Service Bus.
package main

import (
	"os"

	"github.com/penstock-cdc/penstock/publisher/app"
)

func main() { os.Exit(app.Main()) }
