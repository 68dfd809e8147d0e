package readmodel

import (
	"context"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/lease"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

const (
	// sessionsCollection holds the sessions of each process that runs transactions.
	sessionsCollection = "transaction_sessions"
	// sessionsLease is how long a record lasts without a renewal, by the server's clock, and
	// sessionsRenewal how often it is renewed. After the lease, other processes end the
	// transactions of the process.
	sessionsLease   = 10 * time.Second
	sessionsRenewal = 3 * time.Second
	// sessionsTimeout bounds a request about sessions.
	sessionsTimeout = 5 * time.Second
	// sessionsForget is how long records stay that only another user could act on. The server
	// forgets a session earlier.
	sessionsForget = time.Hour
)

// sessions are the logical sessions in which this process runs its transactions. If a
// process dies within a transaction, the server keeps the transaction, and its locks on
// documents and collections, for transactionLifetimeLimitSeconds and up to half as long again:
// 60 to 90 s by default. So each session is recorded before its first transaction, and the
// record has a lease. When the lease has expired, the other processes kill the sessions, which
// aborts the transactions. A process that was only suspended then repeats its transaction.
// Until then the aggregates of the transaction wait; others do not (sidewatermark.go). A process
// that knows that its predecessor is dead kills its sessions at once.
//
// A user may kill its own sessions without a further right. So the record names the user,
// and only processes of that user act on it. If the server refuses killSessions, as the tiers
// Free and Flex of Atlas do, the aggregates wait until the server aborts the transaction.
type sessions struct {
	db      *mongo.Database
	records *mongo.Collection
	logger  zerolog.Logger
	// id and process identify the record.
	id      bson.ObjectID
	process string
	// dead are processes that are certainly dead, whose transactions need not wait for the lease.
	dead []string

	mu   sync.Mutex
	free []*mongo.Session
	all  []bson.Raw
	// unanswered are sessions whose last transaction may still be open, because the server
	// did not answer. A new transaction in the session would abort it, too.
	unanswered map[*mongo.Session]struct{}
	// trust lasts as long as the record cannot have expired.
	trust   lease.Trust
	refused bool
}

func newSessions(db *mongo.Database) *sessions {
	return &sessions{
		db: db, records: mongox.Durable(db, sessionsCollection), logger: zerolog.Nop(),
		id: bson.NewObjectID(), unanswered: map[*mongo.Session]struct{}{},
	}
}

// unnamed names a process without a name of its own, such as a command. No pod has this name,
// so that no pod takes the process for a dead predecessor of its own.
func unnamed() string {
	host, err := os.Hostname()
	if err != nil {
		return "command"
	}
	return "command on " + host
}

// take gives a recorded session that runs no transaction.
func (s *sessions) take(ctx context.Context) (*mongo.Session, error) {
	s.mu.Lock()
	var session *mongo.Session
	if last := len(s.free) - 1; last >= 0 {
		session, s.free = s.free[last], s.free[:last]
		delete(s.unanswered, session)
	}
	recorded := session != nil && s.trust.Holds()
	s.mu.Unlock()
	if recorded {
		return session, nil
	}
	if session == nil {
		var err error
		// A transaction reads its own snapshot, so it need not wait for an earlier one.
		if session, err = s.db.Client().StartSession(options.Session().SetCausalConsistency(false)); err != nil {
			return nil, fmt.Errorf("start session: %w", err)
		}
		s.mu.Lock()
		s.all = append(s.all, session.ID())
		s.mu.Unlock()
	}
	if err := s.renew(ctx); err != nil {
		s.give(session, true)
		return nil, err
	}
	return session, nil
}

// give returns a session. answered is false if its transaction may still be open.
func (s *sessions) give(session *mongo.Session, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, session)
	if !answered {
		s.unanswered[session] = struct{}{}
	}
}

// renew records all sessions for another lease.
func (s *sessions) renew(ctx context.Context) error {
	user, err := s.identify(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	s.mu.Lock()
	all := s.all[:len(s.all):len(s.all)]
	s.mu.Unlock()
	// Renewals may reach the server in another order, so none removes a session.
	_, err = s.records.UpdateOne(ctx, bson.D{{Key: "_id", Value: s.id}}, bson.D{
		{Key: "$set", Value: bson.D{{Key: "user", Value: user}, {Key: "process", Value: s.process}}},
		{Key: "$addToSet", Value: bson.D{{Key: "sessions", Value: bson.D{{Key: "$each", Value: all}}}}},
		{Key: "$currentDate", Value: bson.D{{Key: "renewedAt", Value: true}}},
	}, options.UpdateOne().SetUpsert(true))
	if err != nil {
		return fmt.Errorf("record the sessions of transactions: %w", err)
	}
	s.trust.Extend(begun, sessionsLease-sessionsRenewal)
	return nil
}

// identify gives the user of the connections, which a rotation of credentials can change.
func (s *sessions) identify(ctx context.Context) (string, error) {
	reply, err := s.db.Client().Database("admin").RunCommand(ctx, bson.D{{Key: "connectionStatus", Value: 1}}).Raw()
	if err != nil {
		return "", fmt.Errorf("ask MongoDB for the user of this connection: %w", err)
	}
	user := "none"
	if first, err := reply.LookupErr("authInfo", "authenticatedUsers", "0"); err == nil {
		name, _ := first.Document().Lookup("user").StringValueOK()
		database, _ := first.Document().Lookup("db").StringValueOK()
		user = name + "@" + database
	}
	return user, nil
}

// run renews the record and ends the transactions of processes whose records have expired,
// until ctx ends. Then no transaction may be running, and it removes the record.
func (s *sessions) run(ctx context.Context) {
	tick := time.NewTicker(sessionsRenewal)
	defer tick.Stop()
	for ctx.Err() == nil {
		s.step(ctx)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	leaving, cancel := mongox.Timeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	if s.endUnanswered(leaving) != nil {
		return // The record expires.
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.free {
		session.EndSession(leaving)
	}
	if len(s.all) > 0 {
		_, _ = s.records.DeleteOne(leaving, bson.D{{Key: "_id", Value: s.id}})
	}
}

func (s *sessions) step(ctx context.Context) {
	attempt, cancel := mongox.Timeout(ctx, sessionsTimeout)
	defer cancel()
	s.mu.Lock()
	recorded := len(s.all) > 0
	s.mu.Unlock()
	if recorded {
		if err := s.renew(attempt); err != nil {
			s.logger.Debug().Err(err).Msg("sessions of transactions not renewed; retrying")
			return
		}
	}
	err := s.endUnanswered(attempt)
	if err == nil {
		err = s.endAbandoned(attempt)
	}
	if err != nil && ctx.Err() == nil {
		s.logger.Debug().Err(err).Msg("abandoned transactions not ended; retrying")
	}
}

// endUnanswered ends transactions of this process that the server may have kept.
func (s *sessions) endUnanswered(ctx context.Context) error {
	s.mu.Lock()
	var ids []bson.Raw
	open := s.unanswered
	s.unanswered = map[*mongo.Session]struct{}{}
	s.mu.Unlock()
	for session := range open {
		ids = append(ids, session.ID())
	}
	err := s.kill(ctx, ids)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		maps.Copy(s.unanswered, open)
	}
	return err
}

// endAbandoned ends the transactions of processes that are dead or whose records have expired.
func (s *sessions) endAbandoned(ctx context.Context) error {
	user, err := s.identify(ctx)
	if err != nil {
		return err
	}
	expired := func(after time.Duration) bson.E {
		return bson.E{Key: "$expr", Value: bson.D{{Key: "$lt", Value: bson.A{"$renewedAt", mongox.FromNow(-after)}}}}
	}
	cursor, err := s.records.Find(ctx, bson.D{{Key: "user", Value: user}, {Key: "$or", Value: bson.A{
		bson.D{expired(sessionsLease)},
		bson.D{{Key: "process", Value: bson.D{{Key: "$in", Value: append([]string{}, s.dead...)}}}},
	}}})
	if err != nil {
		return fmt.Errorf("read the sessions of transactions: %w", err)
	}
	var abandoned []struct {
		ID        bson.ObjectID `bson:"_id"`
		Process   string        `bson:"process"`
		Sessions  []bson.Raw    `bson:"sessions"`
		RenewedAt time.Time     `bson:"renewedAt"`
	}
	if err := cursor.All(ctx, &abandoned); err != nil {
		return fmt.Errorf("read the sessions of transactions: %w", err)
	}
	for _, a := range abandoned {
		if err := s.kill(ctx, a.Sessions); err != nil {
			return err
		}
		if _, err := s.records.DeleteOne(ctx, bson.D{{Key: "_id", Value: a.ID}, {Key: "renewedAt", Value: a.RenewedAt}}); err != nil {
			return fmt.Errorf("remove the sessions of %s: %w", a.Process, err)
		}
		s.logger.Info().Str("process", a.Process).Int("sessions", len(a.Sessions)).Msg("transactions of a process that has gone ended")
	}
	if _, err := s.records.DeleteMany(ctx, bson.D{expired(sessionsForget)}); err != nil {
		return fmt.Errorf("remove old sessions of transactions: %w", err)
	}
	return nil
}

// kill aborts the transactions of sessions. If the server refuses the command, the
// transactions live until transactionLifetimeLimitSeconds.
func (s *sessions) kill(ctx context.Context, ids []bson.Raw) error {
	err := killSessions(ctx, s.db, ids)
	if err == nil || mongox.Transient(err) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.refused {
		s.logger.Warn().Err(err).Msg("MongoDB refuses killSessions; aggregates whose projector was killed wait for the end of its transactions, for a minute or more")
	}
	s.refused = true
	return nil
}

func killSessions(ctx context.Context, db *mongo.Database, ids []bson.Raw) error {
	if len(ids) == 0 {
		return nil // An empty list would mean all sessions of the user.
	}
	if err := db.Client().Database("admin").RunCommand(ctx, bson.D{{Key: "killSessions", Value: ids}}).Err(); err != nil {
		return fmt.Errorf("kill sessions: %w", err)
	}
	return nil
}

// MayKillSessions returns the reason why the server does not let this user kill its own
// sessions; nil if it does. It kills a new session.
func MayKillSessions(ctx context.Context, db *mongo.Database) error {
	session, err := db.Client().StartSession()
	if err != nil {
		return fmt.Errorf("start session: %w", err)
	}
	defer session.EndSession(context.WithoutCancel(ctx))
	return killSessions(ctx, db, []bson.Raw{session.ID()})
}
