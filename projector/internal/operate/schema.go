package operate

import (
	"context"

	"github.com/penstock-cdc/penstock/projector/schema"
)

// schemaCommand prints the JSON Schema of a file that authors write.
type schemaCommand struct {
	Tests bool `name:"tests" help:"The schema of test files, *_test.yaml, instead of that of projections."`
}

func (c *schemaCommand) run(_ context.Context, e *Environment) error {
	text := schema.Projections
	if c.Tests {
		text = schema.Tests
	}
	return e.print("schema", string(text))
}
