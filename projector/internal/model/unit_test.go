package model_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

func TestFirstGenerationIsOmitted(t *testing.T) {
	t.Parallel()
	for generation, later := range map[int64]int64{0: 0, 1: 0, 2: 2, 7: 7} {
		if u := (model.Unit{Generation: generation}); u.Later() != later {
			t.Errorf("generation %d is named %d, not %d", generation, u.Later(), later)
		}
	}
}
