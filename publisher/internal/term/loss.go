package term

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
)

// maxLosses is how many losses of one scan are logged as warnings. At the next one the
// process ends with [errOplogTooShort]; a restart continues the scan.
const maxLosses = 3

// errOplogTooShort says that the oplog repeatedly lost the start of the change stream
// during one scan.
var errOplogTooShort = errors.New("oplog does not reach back over a scan of the event store")

// recover continues after the oplog has lost the changes that follow the position.
func (t *term) recover(ctx context.Context, cause error) (checkpoint.Position, error) {
	at := t.pump.at
	if id, err := t.found(ctx); err != nil {
		return at, err
	} else if id.Exists && id.UUID != t.pump.collectionUUID {
		return at, fmt.Errorf("%w; the oplog no longer has the former collection's events after the checkpoint: %w", t.replaced(id), cause)
	}
	if !at.Scan.Active() && (t.pump.moved || !t.scanned) {
		t.logger.Warn().Err(cause).Msg("oplog no longer has the changes after the checkpoint; scanning the event store and publishing its events again")
		t.lost = 0
		from, err := t.newScan(ctx)
		if err != nil {
			return from, err
		}
		return t.start(from, scanHistoryLost), nil
	}
	return t.lose(ctx, at, cause)
}

// lose continues a scan whose stream the oplog has lost. The scan does not start over: the
// scanned part is published, and the rest comes next. But the events that were inserted
// into the scanned part since the stream's start are now only in the store. So the scan
// goes one lap further: it ends when it reaches its present position again.
func (t *term) lose(ctx context.Context, at checkpoint.Position, cause error) (checkpoint.Position, error) {
	t.lost = max(t.lost, lapOf(at.Scan).Losses) + 1
	away := awaySince(at)
	t.logger.Warn().Err(cause).Int("losses", t.lost).Stringer("away", away).
		Msg("oplog lost the change stream during a scan; the scan continues and gets one lap longer")
	from, err := t.newScan(ctx)
	if err != nil {
		return from, err
	}
	lap := checkpoint.Lap{Losses: t.lost, Since: t.since}
	if at.Scan.Active() {
		from.Scan.AggregateID, from.Scan.EventID = at.Scan.AggregateID, at.Scan.EventID
		lap.FromAggregateID, lap.FromEventID = at.Scan.AggregateID, at.Scan.EventID
	}
	from.Scan.Lap = &lap
	from = t.start(from, scanHistoryLost)
	if t.lost > maxLosses {
		return from, fmt.Errorf("%w: it lost the change stream %d times; the last time the stream was not read for %v, and the oplog reached back less. A restart continues the scan. Make the oplog longer, for example with db.adminCommand({replSetResizeOplog: 1, minRetentionHours: 48}), or give the topic more throughput: %w",
			errOplogTooShort, t.lost, away, cause)
	}
	return from, nil
}

// awaySince returns how long the stream has not been read. The oplog reaches back less than
// that.
func awaySince(at checkpoint.Position) time.Duration {
	var last bson.Timestamp
	if last = at.ClusterTime; at.Scan.Active() {
		last = at.Scan.OperationTime
	}
	if last.IsZero() {
		return 0
	}
	return max(0, time.Since(time.Unix(int64(last.T), 0)).Round(time.Second))
}
