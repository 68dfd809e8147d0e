package mongotest

import (
	"context"
	"errors"
)

// CheckNoDeadline fails if ctx has a deadline. Fakes of MongoDB clients call it for each
// request, because with a deadline the driver retries without a pause. See
// [github.com/penstock-cdc/penstock/pkg/mongox.Timeout].
func CheckNoDeadline(ctx context.Context) error {
	if _, dated := ctx.Deadline(); dated {
		return errors.New("request to MongoDB has a deadline")
	}
	return nil
}
