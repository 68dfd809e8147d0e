package app

import (
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/project"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// readModels is the engine's store of read models.
type readModels struct {
	*readmodel.Loader
	*readmodel.Writer
}

var (
	_ project.Store   = readModels{}
	_ project.Parking = (*park.Store)(nil)
)
