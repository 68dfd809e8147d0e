package term

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
)

// maxLosses is how many losses in a row are answered by a scan. At the next one the process
// ends with [errOplogTooShort].
const maxLosses = 3

// errOplogTooShort says that the change stream was lost repeatedly before it moved: nearly always
// because the oplog is short.
var errOplogTooShort = errors.New("oplog does not reach back over a scan of the event store")

// recover returns the position of a scan that replaces the change stream, because the oplog
// has lost the changes after the term's position, or the server cannot send the next one.
func (t *term) recover(ctx context.Context, cause error) (checkpoint.Position, error) {
	at := t.pump.at
	if id, err := t.found(ctx); err != nil {
		return at, err
	} else if id.Exists && id.UUID != t.pump.collectionUUID {
		return at, fmt.Errorf("%w; the change stream no longer has the former collection's events after the checkpoint: %w", t.replaced(id), cause)
	}
	if t.pump.moved {
		t.lost = 0
	}
	t.pump.moved = false
	if t.lost++; t.lost > maxLosses {
		return at, fmt.Errorf("%w: the change stream was lost %d times; unless a change was too large, make the oplog longer, for example with db.adminCommand({replSetResizeOplog: 1, minRetentionHours: 48}): %w", errOplogTooShort, t.lost, cause)
	}
	t.logger.Warn().Err(cause).Msg("change stream cannot continue after the checkpoint; scanning the event store and publishing its events again")
	return t.begin(ctx, scanHistoryLost)
}
