package app

import (
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// readModels is the engine's store of read models.
type readModels struct {
	*readmodel.Loader
	*readmodel.Writer
}

var (
	_ engine.Store   = readModels{}
	_ engine.Parking = (*park.Store)(nil)
)
