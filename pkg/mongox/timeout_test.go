package mongox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

func TestTimeoutEndsAContextWithoutADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := mongox.Timeout(t.Context(), time.Second)
		defer cancel()
		if _, has := ctx.Deadline(); has {
			t.Error("the context has a deadline, so the driver would retry without a pause")
		}
		failed := errors.New("failed")
		if err := mongox.Explain(ctx, failed); !errors.Is(err, failed) || errors.Is(err, mongox.ErrNoAnswer) {
			t.Errorf("explains a failure within time as %v", err)
		}
		start := time.Now()
		<-ctx.Done()
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("gave up after %s", waited)
		}
		if err := mongox.Explain(ctx, context.Canceled); !errors.Is(err, mongox.ErrNoAnswer) || !errors.Is(err, context.Canceled) {
			t.Errorf("explains a request given up as %v", err)
		}
		if err := mongox.Explain(ctx, nil); err != nil {
			t.Errorf("explains success as %v", err)
		}
		released, release := mongox.Timeout(t.Context(), time.Hour)
		release()
		if cause := context.Cause(released); cause == nil || errors.Is(cause, mongox.ErrNoAnswer) {
			t.Errorf("ended by its owner, its cause is %v", cause)
		}
	})
}

func TestWithoutDeadlineEndsWithItsParent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := errors.New("late")
		dated, cancel := context.WithTimeoutCause(t.Context(), time.Second, late)
		defer cancel()
		ctx, release := mongox.WithoutDeadline(dated)
		defer release()
		if _, has := ctx.Deadline(); has {
			t.Error("the context has a deadline, so the driver would retry without a pause")
		}
		start := time.Now()
		<-ctx.Done()
		if waited := time.Since(start); waited != time.Second || !errors.Is(context.Cause(ctx), late) {
			t.Errorf("ended after %s because of %v", waited, context.Cause(ctx))
		}
	})
}
