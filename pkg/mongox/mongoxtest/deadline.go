package mongoxtest

import (
	"context"
	"errors"
)

// CheckNoDeadline is for fakes of what asks MongoDB: it fails where ctx has a deadline,
// which the driver would take for a licence to retry without a pause. See
// [github.com/penstock-cdc/penstock/pkg/mongox.Timeout].
func CheckNoDeadline(ctx context.Context) error {
	if _, dated := ctx.Deadline(); dated {
		return errors.New("request to MongoDB has a deadline")
	}
	return nil
}
