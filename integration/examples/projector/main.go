package main

import (
	"fmt"
	"os"

	"github.com/penstock-cdc/penstock/projector/app"
)

func main() { os.Exit(run()) }

func run() int {
	discounts, err := newDiscounts()
	if err != nil {
		fmt.Fprintln(os.Stderr, "projector:", err)
		return 1
	}
	return app.Main(discounts)
}
