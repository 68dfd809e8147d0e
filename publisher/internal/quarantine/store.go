package quarantine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/tracing"
)

// CollectionName is the collection's name in the database of the state.
const CollectionName = "quarantine"

const (
	// maxEventBytes is the largest event that fits into a record: the 16 MiB of a document
	// minus the record's other fields.
	maxEventBytes = 15 << 20
	putTimeout    = 10 * time.Second
	backoffFirst  = 100 * time.Millisecond
	backoffMax    = 10 * time.Second
)

// Entry is one event that cannot be published.
type Entry struct {
	// DocumentID is the event's _id in the store, which identifies the entry.
	DocumentID bson.RawValue
	// Reason, Field and Detail say why, as [event.ContractError] does.
	Reason        event.Reason
	Field, Detail string
	// Keys are the event's, as far as they could be read. Numbered says that the event id could.
	Keys     event.Keys
	Numbered bool
	// Token is the position just after the event in the stream; nil if the event was read
	// by a scan.
	Token bson.Raw
	// Event is the document; nil if it is not available.
	Event bson.Raw
}

// Options are what a store reports to. The zero value reports to no one: every field is optional.
type Options struct {
	// Registerer receives penstock_publisher_quarantined_total{reason}.
	Registerer prometheus.Registerer
	Logger     zerolog.Logger
}

// Store is the quarantine of one stream. A process makes one. It is safe for concurrent
// use.
type Store struct {
	collection mongox.Collection
	stream     string
	counted    *prometheus.CounterVec
	logger     zerolog.Logger
	// entries logs the events; it samples them if there are many.
	entries zerolog.Logger
}

// NewStore makes the quarantine of a stream.
func NewStore(collection mongox.Collection, stream string, o Options) *Store {
	return &Store{
		collection: collection,
		stream:     stream,
		counted: obs.CounterVec(o.Registerer, "penstock_publisher_quarantined_total",
			"Events that were put into the quarantine instead of being published, by reason: what the event lacks or has wrong, too_large or refused (by the topic). An event that is read again counts again.",
			"reason", Reasons()...),
		logger:  o.Logger,
		entries: o.Logger.Sample(&zerolog.BurstSampler{Burst: 10, Period: time.Minute}),
	}
}

// Reasons returns the reasons for which an event can be in the quarantine.
func Reasons() []event.Reason {
	return []event.Reason{
		event.ReasonMissingAggregateID, event.ReasonMissingEventID, event.ReasonMissingEventType,
		event.ReasonWrongType, event.ReasonOutOfRange, event.ReasonMalformed, event.ReasonTooLarge, event.ReasonRefused,
	}
}

// ErrRefused says that MongoDB does not allow the user to write the quarantine. The text has
// the remedy.
var ErrRefused = errors.New("quarantine is refused")

// Put stores entries of the term epoch. When it returns nil, a majority of the replica set
// has them. It retries after transient errors until ctx ends, and then returns the cause of
// ctx. It fails with [ErrRefused] if the user may not write. A record that the server
// refuses is stored without its event. A span in ctx must belong to the only entry.
func (s *Store) Put(ctx context.Context, epoch int64, entries ...Entry) error {
	if len(entries) == 0 {
		return nil
	}
	entries = slices.Clone(entries)
	now := time.Now()
	models := s.models(epoch, entries, now)
	retry := poll.Backoff{First: backoffFirst, Max: backoffMax}
	for {
		err := s.write(ctx, models)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !mongox.Transient(err) && !mongox.DuplicateKeyOnID(err) {
			if omitRefused(entries, err) {
				s.logger.Warn().Err(err).Msg("quarantine refuses records with their events; storing them without")
				models = s.models(epoch, entries, now)
				continue
			}
			err = fmt.Errorf("store %d events in the quarantine: %w", len(entries), err)
			if mongox.HasCode(err, mongox.CodeUnauthorized) {
				err = fmt.Errorf("%w: %w; grant the user readWrite on the database of the state (PENSTOCK_STATE_DATABASE)", ErrRefused, err)
			}
			return err
		}
		wait := retry.Next()
		s.logger.Warn().Err(err).Stringer("wait", wait.Round(time.Millisecond)).Msg("quarantine not written; retrying")
		if err := poll.Wait(ctx, wait); err != nil {
			return err
		}
	}
	for _, e := range entries {
		s.counted.WithLabelValues(string(e.Reason)).Inc()
		s.entries.Warn().Str("reason", string(e.Reason)).Str("field", e.Field).Str("detail", e.Detail).
			Stringer("document", e.DocumentID).EmbedObject(tracing.SpanOf(ctx)).Msg("event cannot be published and is in the quarantine")
	}
	return nil
}

// omitRefused removes the events of the entries that the server refuses to store, and
// reports whether there was one to remove. A record has one level more than its event, so
// an event of 180 levels, the most that MongoDB stores, does not fit into a record. The
// administrators of the database can also have set rules for the collection.
func omitRefused(entries []Entry, err error) (omitted bool) {
	for i, refusal := range mongox.WriteErrors(err) {
		if mongox.Transient(refusal) || mongox.DuplicateKeyOnID(refusal) || i >= len(entries) || entries[i].Event == nil {
			continue
		}
		entries[i].Event, omitted = nil, true
	}
	return omitted
}

func (s *Store) write(ctx context.Context, models []mongo.WriteModel) error {
	ctx, cancel := mongox.Timeout(ctx, putTimeout)
	defer cancel()
	_, err := s.collection.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	return mongox.Explain(ctx, err)
}

func (s *Store) models(epoch int64, entries []Entry, now time.Time) []mongo.WriteModel {
	models := make([]mongo.WriteModel, 0, len(entries))
	for _, e := range entries {
		first := bson.D{
			{Key: "reason", Value: e.Reason},
			{Key: "detail", Value: e.Detail},
			{Key: "firstSeen", Value: now},
		}
		add := func(set bool, key string, value any) {
			if set {
				first = append(first, bson.E{Key: key, Value: value})
			}
		}
		add(e.Field != "", "field", e.Field)
		add(e.Keys.AggregateID != "", "aggregateId", e.Keys.AggregateID)
		add(e.Numbered, "eventId", e.Keys.EventID)
		add(e.Token != nil, "token", e.Token)
		if e.Event != nil && len(e.Event) <= maxEventBytes {
			add(true, "event", e.Event)
		} else {
			add(true, "eventOmitted", true)
		}
		models = append(models, mongo.NewUpdateOneModel().
			SetFilter(bson.D{{Key: "_id", Value: bson.D{{Key: "stream", Value: s.stream}, {Key: "document", Value: idOrNull(e.DocumentID)}}}}).
			SetUpdate(bson.D{
				{Key: "$setOnInsert", Value: first},
				{Key: "$set", Value: bson.D{{Key: "epoch", Value: epoch}, {Key: "lastSeen", Value: now}}},
				{Key: "$inc", Value: bson.D{{Key: "seen", Value: int64(1)}}},
			}).
			SetUpsert(true))
	}
	return models
}

func idOrNull(id bson.RawValue) any {
	if id.Type == 0 {
		return nil
	}
	return id
}

// Cause converts an error of the event contract to the fields of an entry. Any other error
// is a malformed event.
func Cause(err error) (reason event.Reason, field, detail string) {
	if broken, ok := errors.AsType[*event.ContractError](err); ok {
		return broken.Reason, broken.Field, broken.Detail
	}
	return event.ReasonMalformed, "", err.Error()
}
