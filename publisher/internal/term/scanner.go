package term

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// ScanHandler handles the documents of a scan, in order and one call at a time. If it blocks,
// reading stops (back-pressure). Its error ends the scan.
type ScanHandler func(ctx context.Context, documents []bson.Raw) error

// ScanOptions configure a scanner. Zero values mean the defaults.
type ScanOptions struct {
	// PrefetchBytes bounds the pages that are read ahead of the handler. In addition there
	// are the page that waits for room, and the driver's reply of at most 16 MiB. Default
	// 16 MiB.
	PrefetchBytes int64
	// Timeout bounds one request. A scan without an answer counts as alive for twice that
	// time. Default 2 min.
	Timeout time.Duration
	// Beat is called about every second while the scan is alive.
	Beat func()
	// Read, if not nil, counts the documents.
	Read prometheus.Counter
	// Logger is silent by default.
	Logger zerolog.Logger
}

const (
	// pagesAhead is how many pages are read ahead of the handler, within PrefetchBytes. A page
	// is about 256 KiB, or one document that is larger.
	pagesAhead   = 4
	beatInterval = time.Second
	backoffFirst = 100 * time.Millisecond
	backoffMax   = 15 * time.Second
)

// Scanner reads the event store once. Make it with [NewScanner].
type Scanner struct {
	source  Source
	options ScanOptions
}

// NewScanner makes a scanner on source.
func NewScanner(source Source, options ScanOptions) *Scanner {
	if options.PrefetchBytes <= 0 {
		options.PrefetchBytes = 16 << 20
	}
	if options.Timeout <= 0 {
		options.Timeout = 2 * time.Minute
	}
	if options.Beat == nil {
		options.Beat = func() {}
	}
	return &Scanner{source: source, options: options}
}

// Run passes every event that was in the store at since to handler, from the position from
// (included) to until (excluded; zero is the end), and some later events. It returns nil at
// the end. It fails with [eventstore.ErrIndex], with [watch.ErrRefused], with the handler's
// error, or with the cause of ctx's end. It retries all other errors. When Run returns, all
// its goroutines have ended.
func (s *Scanner) Run(ctx context.Context, from, until eventstore.Position, since bson.Timestamp, handler ScanHandler) error {
	pages := watch.NewQueue[[]bson.Raw](pagesAhead, s.options.PrefetchBytes)
	var health alive
	health.answered(time.Now())

	group, groupCtx := errgroup.WithContext(ctx)
	beats, stopBeats := context.WithCancel(groupCtx)
	group.Go(func() error {
		defer pages.Close()
		return s.read(groupCtx, from, until, since, pages, &health)
	})
	group.Go(func() error {
		defer stopBeats()
		return pages.Handle(groupCtx, func(ctx context.Context, documents []bson.Raw) error {
			health.handling.Store(true)
			defer health.handling.Store(false)
			if err := handler(ctx, documents); err != nil {
				return fmt.Errorf("handle scanned events: %w", err)
			}
			return nil
		})
	})
	group.Go(func() error {
		poll.Every(beats, beatInterval, func() { s.beat(&health) })
		return nil
	})
	err := group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// read fills pages until the end, and opens the query again after transient errors.
func (s *Scanner) read(ctx context.Context, from, until eventstore.Position, since bson.Timestamp, pages *watch.Queue[[]bson.Raw], health *alive) error {
	retry := poll.Backoff{First: backoffFirst, Max: backoffMax}
	for {
		moved, err := s.query(ctx, &from, until, since, pages, health)
		switch {
		case errors.Is(err, eventstore.ErrEnd):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, eventstore.ErrIndex):
			return err
		}
		if class, remedy := watch.Classify(err, watch.Opening); class == watch.Refused {
			return fmt.Errorf("%w: %w; %s", watch.ErrRefused, err, remedy)
		}
		if moved {
			retry.Reset()
		}
		wait := retry.Next()
		s.options.Logger.Warn().Err(err).Stringer("wait", wait.Round(time.Millisecond)).
			Msg("scan of the event store interrupted; continuing where it stopped")
		if err := poll.Wait(ctx, wait); err != nil {
			return err
		}
	}
}

// query runs one query from the position, which it advances, and reports whether the query
// returned anything. Its error is never nil.
func (s *Scanner) query(ctx context.Context, from *eventstore.Position, until eventstore.Position, since bson.Timestamp, pages *watch.Queue[[]bson.Raw], health *alive) (moved bool, err error) {
	cursor, err := mongox.Within(ctx, s.options.Timeout, func(ctx context.Context) (eventstore.Cursor, error) {
		return s.source.Open(ctx, *from, until, since)
	})
	switch {
	case err != nil:
		return false, err
	case cursor == nil:
		return false, eventstore.ErrEnd
	}
	defer func() {
		if err := mongox.CloseCursor(ctx, cursor); err != nil {
			s.options.Logger.Debug().Err(err).Msg("cursor of the scan not closed cleanly")
		}
	}()
	for {
		documents, err := mongox.Within(ctx, s.options.Timeout, cursor.Next)
		if err != nil {
			return moved, err
		}
		health.answered(time.Now())
		if s.options.Read != nil {
			s.options.Read.Add(float64(len(documents)))
		}
		if err := pages.Put(ctx, documents, bytesOf(documents)); err != nil {
			return moved, err
		}
		moved = true
		for i := len(documents) - 1; i >= 0; i-- {
			if at, ok := s.source.Position(documents[i]); ok {
				*from = at
				break
			}
		}
	}
}

func bytesOf(documents []bson.Raw) (bytes int64) {
	for _, document := range documents {
		bytes += int64(len(document))
	}
	return bytes
}

// beat sends a heartbeat if the scan is alive.
func (s *Scanner) beat(health *alive) {
	if health.handling.Load() || health.silence(time.Now()) < 2*s.options.Timeout {
		s.options.Beat()
	}
}

// alive is the state for the liveness of a scan. Waiting for the handler counts as alive.
type alive struct {
	// last is the time of the last reply. It keeps the monotonic reading, so that a changed
	// clock does not look like silence.
	last     atomic.Pointer[time.Time]
	handling atomic.Bool
}

func (a *alive) answered(now time.Time)              { a.last.Store(&now) }
func (a *alive) silence(now time.Time) time.Duration { return now.Sub(*a.last.Load()) }

// Source is the event store, as far as scans need it: an [eventstore.Reader]. Only one
// goroutine may use it.
type Source interface {
	// OperationTime gives a cluster time up to which a scan that begins now sees
	// everything.
	OperationTime(ctx context.Context) (bson.Timestamp, error)
	// Open begins to read the events from ≤ position < until; see [eventstore.Reader.Open].
	Open(ctx context.Context, from, until eventstore.Position, since bson.Timestamp) (eventstore.Cursor, error)
	// Compare orders two positions as the index does. known is false if it cannot tell.
	Compare(a, b eventstore.Position) (order int, known bool)
	// LearnIDs gives the type of the aggregates' ids; see [eventstore.Reader.LearnIDs].
	LearnIDs(ctx context.Context) (event.IDKind, error)
	// CheckFirstID fails if event ids begin elsewhere; see [eventstore.Reader.CheckFirstID].
	CheckFirstID(ctx context.Context) error
	// Position is the place of a document in the scan, if it has exactly one.
	Position(document bson.Raw) (p eventstore.Position, ok bool)
}

var _ Source = (*eventstore.Reader)(nil)
