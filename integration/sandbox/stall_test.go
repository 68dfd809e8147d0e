package sandbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A rebuild of many events takes longer than the limit, and goes on as long as its job does.
func TestStepEndsOnlyWithoutProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, progress, end := stalling(t.Context(), time.Minute)
		defer end()
		for range 10 {
			<-time.After(50 * time.Second)
			progress()
		}
		if ctx.Err() != nil {
			t.Errorf("ended in spite of progress: %v", context.Cause(ctx))
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if cause := context.Cause(ctx); cause == nil || cause.Error() != "no progress for 1m0s" {
			t.Errorf("a minute without progress: %v", cause)
		}
	})
}
