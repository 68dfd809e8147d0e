// Package schema has the JSON Schemas (draft 7) of the files that authors of projections write.
// Editors read them, and projector schema prints them. A schema accepts every file that the parser
// accepts, and more, because it does not check expressions.
package schema

import _ "embed"

// Projections is the schema of a file of projections, and Tests that of a test file.
var (
	//go:embed projections.json
	Projections []byte
	//go:embed projections_test.json
	Tests []byte
)

// Addresses of the published schemas.
const (
	ProjectionsID = "https://raw.githubusercontent.com/penstock-cdc/penstock/main/projector/schema/projections.json"
	TestsID       = "https://raw.githubusercontent.com/penstock-cdc/penstock/main/projector/schema/projections_test.json"
)
