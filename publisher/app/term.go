package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/breaker"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/pause"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/inventory"
	"github.com/penstock-cdc/penstock/publisher/internal/leader"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/readable"
	"github.com/penstock-cdc/penstock/publisher/internal/scan"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// worker holds what the terms of a process share. Tests replace MongoDB and Service Bus
// here by implementations in memory.
type worker struct {
	events      watch.Source
	history     scan.Source
	checkpoints *checkpoint.Store
	quarantine  *quarantine.Store
	connect     publish.Connect
	// namespace is that of the topic.
	namespace *sbus.Namespace

	// unreadable bounds how many events may be unreadable with the field names in fields.
	// known finds the events that are in the quarantine already, whole judges the whole
	// store.
	fields     event.Fields
	unreadable readable.Limit
	known      readable.Known
	whole      func(context.Context) error

	// refusals bounds how many events that the topic refuses may go to the quarantine. refused
	// counts those that went there since a time.
	refusals breaker.Limit
	refused  func(ctx context.Context, since time.Time, limit int64) (int64, error)

	reader   *event.Reader
	encoder  *event.Encoder
	sessions event.SessionKeys
	start    config.StartPoint

	watching   watch.Options
	scanning   scan.Options
	publishing publish.Options
	saving     checkpoint.SaverConfig
	window     int
	// drainTimeout bounds how long the end of a term waits for acknowledgements.
	drainTimeout time.Duration

	// access decides whether a refusal by MongoDB that ended a term ends the process, standby
	// whether one that guard meets does, and storing whether a refusal of the quarantine does:
	// meanwhile every term reads the event store.
	access, standby, storing *mongox.Access
	// idle ends the liveness check of the stream, and ended ends the checks of the term's
	// other loops and of the topic, until the next term. Both are nil without a probe.
	idle, ended func()

	// inventory and pausing run beside the terms as long as the process. A nil pausing
	// never pauses.
	inventory *inventory.Counter
	pausing   *pause.Switch

	// identity is this process's pipeline without the collection's UUID, which collection
	// reads. adopt allows a takeover. checkLock compares the stream that the lock records;
	// it is nil if the lock records none.
	identity   checkpoint.Identity
	collection func(context.Context) (mongox.CollectionID, error)
	adopt      string
	checkLock  func(context.Context) error

	// stretch is how long a scan reads before it follows the change stream for the part
	// that is scanned; zero means [scanStretch].
	stretch time.Duration

	scans   *prometheus.CounterVec
	missing prometheus.Gauge
	losses  prometheus.Gauge
	logger  zerolog.Logger
}

// claimTimeout bounds the claim of the checkpoint and each look at the event store.
const claimTimeout = 10 * time.Second

var (
	errDrained = errors.New("term has drained")
	errEnded   = errors.New("dispatcher has ended")
)

// work does the work of one term until ctx ends. ctx is derived from leading.Held: a stop
// ends ctx alone, the loss of the lease ends both. After ctx has ended, work returns only
// errors that end the process.
func (w *worker) work(ctx context.Context, leading leadership) error {
	claim, from, err := w.claim(ctx, leading.Identity())
	if err != nil {
		return unlessEnded(ctx, err)
	}
	logger := w.logger.With().Int64("epoch", claim.Epoch).Logger()
	t := &term{worker: w, logger: logger, since: claim.Since, pump: &pump{
		reader:     w.reader,
		epoch:      claim.Epoch,
		watermark:  checkpoint.NewWatermark(w.window),
		quarantine: w.quarantine,
		storing:    w.storing,
		window:     readable.NewWindow(w.fields, w.unreadable),
		known:      w.known,
		whole:      w.whole,
		strangers:  w.history.Strangers,
		logger:     logger,
	}}
	options := w.publishing
	options.Connect, options.Encoder, options.SessionKey = w.connect, w.encoder, w.sessions.Key
	options.Epoch, options.Logger = claim.Epoch, logger
	options.Acked, options.Quarantine, options.Known = t.pump.acked, t.pump.refused, t.pump.isKnown
	w.limitRefusals(ctx, &options, from)
	if store, ok := w.history.(documents); ok {
		options.Load = t.pump.reload(store)
	}
	options.Closing = func() (context.Context, context.CancelFunc) {
		return endingWithin(leading, mostClosing, closingShare)
	}
	if t.dispatcher, err = publish.New(options); err != nil {
		return err
	}
	t.pump.submit = t.dispatcher.Submit
	t.saver = checkpoint.NewSaver(claim, t.pump.watermark, w.saving)

	if w.ended != nil {
		defer w.ended()
	}
	if metrics := w.watching.Metrics; metrics != nil {
		metrics.Begin(streamPosition(from))
		defer metrics.End()
	}
	return unlessEnded(ctx, t.run(ctx, leading, from))
}

// recentRefusals is how long before the checkpoint an event must have gone to the quarantine to
// count in the next term. Events that wait keep the checkpoint where it is, so they keep those
// that went to the quarantine before them recent.
const recentRefusals = time.Hour

// repeatTime is for how long a term after many refusals does not count the events that the topic
// accepts as good ones: most of them are repeated.
const repeatTime = time.Minute

// limitRefusals limits the refused events that a term from that position on puts into the
// quarantine. Those of earlier terms count: otherwise each restart would put more events of a
// topic with a wrong setting there.
func (w *worker) limitRefusals(ctx context.Context, options *publish.Options, from checkpoint.Position) {
	since := time.Now()
	if at := watch.TimeOf(streamPosition(from)); !at.IsZero() && at.Before(since) {
		since = at
	}
	ctx, cancel := mongox.Timeout(ctx, claimTimeout)
	defer cancel()
	most := int64(w.refusals.Minimum)
	refused, err := w.refused(ctx, since.Add(-recentRefusals), most)
	if err != nil {
		refused = most
		w.logger.Warn().Err(err).Msg("refused events in the quarantine not counted; they count as many")
	}
	if refused == most {
		options.GoodFrom = time.Now().Add(repeatTime)
	}
	options.Breaker = breaker.New(w.refusals)
	for range refused {
		options.Breaker.Allow(0)
	}
}

// unlessEnded returns err unless ctx has ended and err is not fatal.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && !fatal(err) {
		return nil
	}
	return err
}

// claim claims the checkpoint for the term. If the checkpoint has no position, claim saves
// a start point.
func (w *worker) claim(ctx context.Context, identity string) (*checkpoint.Claim, checkpoint.Position, error) {
	here, err := w.here(ctx)
	if err != nil {
		return nil, checkpoint.Position{}, err
	}
	ctx, cancel := mongox.Timeout(ctx, claimTimeout)
	defer cancel()
	claim, err := w.checkpoints.Claim(ctx, identity, here, w.adopt)
	switch {
	case mongox.HasCode(err, mongox.CodeUnauthorized):
		return nil, checkpoint.Position{}, fmt.Errorf("%w: %w; grant the user readWrite on the database of the state (PENSTOCK_STATE_DATABASE)", errSetup, err)
	case err != nil:
		return nil, checkpoint.Position{}, explainPipeline(mongox.Explain(ctx, err))
	}
	from := claim.Position
	if from.IsZero() {
		recorded := from.CollectionUUID
		if from, err = w.startPoint(ctx); err != nil {
			return nil, from, mongox.Explain(ctx, err)
		}
		from.CollectionUUID = recorded
		if err := claim.Save(ctx, from); err != nil {
			return nil, from, fmt.Errorf("save the start point: %w", mongox.Explain(ctx, err))
		}
		if from.Begin {
			claim.Since = from.ClusterTime
		}
	}
	return claim, from, nil
}

// term is a running term.
type term struct {
	*worker
	logger     zerolog.Logger
	pump       *pump
	dispatcher *publish.Dispatcher
	saver      *checkpoint.Saver
	// lost counts the losses of the scan that is running or has just ended. scanned reports
	// whether this term has finished a scan.
	lost    int
	scanned bool
	// since is where the stream began; zero for the beginning of the event store.
	since bson.Timestamp
}

// run publishes from the position on until ctx or the lease ends, or an error stops it. It
// returns that error. When run returns, everything that it started has ended, and it has
// tried to save the checkpoint.
func (t *term) run(ctx context.Context, leading leadership, from checkpoint.Position) error {
	held := leading.Held()
	// Stop reading first. Stop publishing after everything in flight is acknowledged.
	publishing, endPublishing := context.WithCancelCause(held)
	defer endPublishing(errDrained)
	reading, endReading := context.WithCancelCause(ctx)
	defer endReading(errDrained)

	var group sync.WaitGroup
	var published, saved error
	group.Go(func() {
		published = t.dispatcher.Run(publishing)
		endReading(errEnded)
	})
	group.Go(func() {
		if saved = t.saver.Run(publishing); saved != nil {
			endReading(saved)
			endPublishing(saved)
		}
	})
	read := t.read(reading, from)
	if t.idle != nil {
		t.idle()
	}
	if publishing.Err() == nil {
		t.drain(publishing)
	}
	endPublishing(errDrained)
	group.Wait()
	flushing, endFlushing := endingWithin(leading, mostFlushing, flushingShare)
	defer endFlushing()
	if err := t.saver.Flush(flushing); err != nil && saved == nil {
		t.logger.Warn().Err(err).Msg("checkpoint not saved at the end of the term; the next term publishes a few events again")
	}
	switch {
	case saved != nil:
		return saved
	case published != nil && !errors.Is(published, errDrained) && held.Err() == nil:
		return published
	case ctx.Err() != nil || errors.Is(read, errEnded):
		return nil
	default:
		return read
	}
}

// drain waits until the events in flight are acknowledged, for at most drainTimeout.
func (t *term) drain(ctx context.Context) {
	events, _ := t.dispatcher.Inflight()
	t.logger.Info().Int("inflight", events).Msg("draining")
	ctx, cancel := context.WithTimeout(ctx, t.drainTimeout)
	defer cancel()
	if err := t.dispatcher.Drain(ctx); err != nil {
		left, _ := t.dispatcher.Inflight()
		t.logger.Warn().Err(err).Int("left", left).Msg("drain not finished; the next term publishes the remaining events")
	}
}

// fatal reports whether an operator must act on err: no other term or process would fare
// better. The process then ends with the explanation; see [mongox.Access.Final].
func fatal(err error) bool {
	if sendErr, ok := errors.AsType[*publish.SendError](err); ok && sendErr.Fault == publish.FaultFatal {
		return true
	}
	for _, target := range []error{watch.ErrRefused, scan.ErrRefused, quarantine.ErrRefused, eventstore.ErrIndex, eventstore.ErrNoOperationTime, errOplogTooShort, errSetup, checkpoint.ErrRefused, checkpoint.ErrOtherPipeline, leader.ErrOtherStream, readable.ErrUnreadable} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
