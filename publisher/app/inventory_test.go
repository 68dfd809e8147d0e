package app

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestBackgroundLoopEndsWhenStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := false
		stop := beside(t.Context(), func(ctx context.Context) {
			<-ctx.Done()
			ended = true
		})
		stop()
		if !ended {
			t.Error("stop has not waited for the loop's end")
		}
	})
}
