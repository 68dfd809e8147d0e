package e2e_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// procedure runs commands as docs/operations.md prints them.
type procedure struct {
	*scenario
	page string
}

func newProcedure(s *scenario) *procedure {
	s.t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		s.t.Fatal(err)
	}
	return &procedure{s, string(page)}
}

var (
	word        = regexp.MustCompile(`"[^"]*"|\S+`)
	placeholder = regexp.MustCompile(`^[A-Z]+$`)
)

// run runs a line of the page that begins with the program. values replace the words in
// capitals. run confirms the question.
func (p *procedure) run(code int, line string, values ...string) {
	p.t.Helper()
	if !strings.Contains(p.page, line) {
		p.t.Errorf("docs/operations.md does not have the command %s", line)
	}
	words := word.FindAllString(line, -1)
	for i, w := range words {
		if placeholder.MatchString(w) {
			words[i], values = values[0], values[1:]
		}
		words[i] = strings.Trim(words[i], `"`)
	}
	program, args := strings.TrimPrefix(words[0], "/"), words[1:]
	command := p.Publisher
	if program == "projector" {
		command = p.Projector
	}
	if strings.Contains(line, "--why") {
		args = append(args, "--yes")
	}
	out, err := command(p.t.Context(), args...)
	if err != nil {
		p.t.Fatal(err)
	}
	if out.Status != code {
		p.t.Fatalf("%s: status %d, want %d\n%s%s", strings.Join(words, " "), out.Status, code, out.Stdout, out.Stderr)
	}
}

// backup is a copy of databases, like mongodump's.
type backup map[string][]saved

type saved struct {
	collection string
	indexes    []bson.Raw
	documents  []any
}

func (s *scenario) dump(databases ...*mongo.Database) backup {
	s.t.Helper()
	b := make(backup)
	for _, db := range databases {
		names, err := db.ListCollectionNames(s.t.Context(), bson.D{})
		if err != nil {
			s.t.Fatal(err)
		}
		b[db.Name()] = []saved{}
		for _, name := range names {
			c := saved{collection: name}
			cursor, err := db.Collection(name).Find(s.t.Context(), bson.D{})
			if err == nil {
				var found []bson.Raw
				err = cursor.All(s.t.Context(), &found)
				for _, document := range found {
					c.documents = append(c.documents, document)
				}
			}
			if err == nil {
				cursor, err = db.Collection(name).Indexes().List(s.t.Context())
			}
			if err == nil {
				err = cursor.All(s.t.Context(), &c.indexes)
			}
			if err != nil {
				s.t.Fatal(err)
			}
			b[db.Name()] = append(b[db.Name()], c)
		}
	}
	return b
}

// restore replaces the collections by their copies, like mongorestore --drop, and drops
// collections without a copy.
func (s *scenario) restore(b backup) {
	s.t.Helper()
	for name, collections := range b {
		db := s.client.Database(name)
		if err := db.Drop(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		for _, c := range collections {
			if err := db.CreateCollection(s.t.Context(), c.collection); err != nil {
				s.t.Fatal(err)
			}
			var indexes bson.A
			for _, index := range c.indexes {
				if index.Lookup("name").StringValue() != "_id_" {
					indexes = append(indexes, index)
				}
			}
			if len(indexes) > 0 {
				if err := db.RunCommand(s.t.Context(), bson.D{{Key: "createIndexes", Value: c.collection}, {Key: "indexes", Value: indexes}}).Err(); err != nil {
					s.t.Fatal(err)
				}
			}
			if len(c.documents) == 0 {
				continue
			}
			if _, err := db.Collection(c.collection).InsertMany(s.t.Context(), c.documents, options.InsertMany().SetOrdered(false)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// counts returns countsProjection's read models as one text, by aggregate.
func (s *scenario) counts(aggregates ...string) string {
	s.t.Helper()
	var all []string
	for _, id := range aggregates {
		all = append(all, id+": "+s.count(id))
	}
	return strings.Join(all, ", ")
}

// awaitCounts waits until the read models equal want.
func (s *scenario) awaitCounts(want string, aggregates ...string) {
	s.t.Helper()
	s.await("the read models "+want, func() bool { return s.counts(aggregates...) == want })
}

// ten is a payload for countsProjection that no other event has.
var ten = bson.D{{Key: "n", Value: int64(10)}}

// quickSweeps lets the sweeps find late aggregates within seconds.
const quickSweeps = "PENSTOCK_RECONCILE=10s"

// TestEventStoreIsRestoredToAnEarlierTime checks the page's procedure for the loss of the
// last events. Their effects disappear, new events get their ids, and all read models equal
// the fold of the restored store, even if a message of a lost event was still in the
// subscription.
func TestEventStoreIsRestoredToAnEarlierTime(t *testing.T) {
	scene(t, eventStoreIsRestoredToAnEarlierTime)
}

func eventStoreIsRestoredToAnEarlierTime(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{}, quickSweeps)
	p := newProcedure(s)
	s.start(1, 1)
	s.insert(counted("a", 1, one), counted("a", 2, one), counted("b", 1, one))
	s.awaitCounts("a: n=2 after event 2, b: n=1 after event 1", "a", "b")
	old := s.dump(s.client.Database(s.backend.Databases().Events))

	// These events will be lost. The message of the last one waits in the subscription.
	s.insert(counted("a", 3, ten), counted("lost", 1, ten))
	s.awaitCounts("a: n=12 after event 3, lost: n=10 after event 1", "a", "lost")
	s.stopped(s.process("projector-0"))
	s.insert(counted("b", 2, ten))
	s.awaitPublishedEvents(6)
	s.stopped(s.process("publisher-0"))

	s.restore(old)
	s.emptySubscription()
	s.start(0, 1)
	p.run(1, "/projector verify")
	p.run(0, `/projector projections rebuild NAME --allow-missing N --why "restore"`, "counts", "1")
	s.awaitLive(map[string]int64{"counts": 2})
	s.awaitCounts("a: n=2 after event 2, b: n=1 after event 1", "a", "b")
	p.run(0, `/publisher checkpoint set beginning --why "restore"`)
	s.start(1, 0)
	s.insert(counted("a", 3, one), counted("b", 2, one), counted("new", 1, one))
	s.awaitCounts("a: n=3 after event 3, b: n=2 after event 2, new: n=1 after event 1", "a", "b", "new")
	if err := s.models.Collection("counts").FindOne(t.Context(), bson.D{{Key: "_id", Value: "lost"}}).Err(); err == nil {
		t.Error("the read model of an event that the store lost is still there")
	}
	p.run(0, "/projector verify")
}

// emptySubscription completes all messages, because no API here deletes a subscription and
// makes it again.
func (s *scenario) emptySubscription() {
	s.t.Helper()
	client, bus := s.busClient(), s.backend.Bus()
	for {
		backlog, err := s.backend.Backlog()
		if err != nil {
			s.t.Fatal(err)
		}
		if backlog.Active == 0 {
			return
		}
		session, err := client.AcceptNextSessionForSubscription(s.t.Context(), bus.Topic, bus.Subscription, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		messages, err := session.ReceiveMessages(s.t.Context(), 1, nil)
		if err == nil && len(messages) == 1 {
			err = session.CompleteMessage(s.t.Context(), messages[0], nil)
		}
		if err == nil {
			err = session.Close(s.t.Context())
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// releaseCheckpoint gives the checkpoint to the configuration of a publisher that refuses it.
func (s *scenario) releaseCheckpoint(process *harness.Process) {
	s.t.Helper()
	if !strings.Contains(s.log(process), "publisher checkpoint release --why TEXT") {
		s.t.Fatalf("%s does not name the command:\n%s", process.Name, tail(process.Log))
	}
	s.publisherCommand(0, "checkpoint", "release", "--yes", "--why", "moved")
}

// releaseOwners releases the names that a projector requests in its log.
func (s *scenario) releaseOwners(process *harness.Process) {
	s.t.Helper()
	log, err := os.ReadFile(process.Log)
	if err != nil {
		s.t.Fatal(err)
	}
	_, command, found := strings.Cut(string(log), "projector owners release --why TEXT ")
	var names []string
	for _, name := range regexp.MustCompile(`\\"([^"\\]+)\\"`).FindAllStringSubmatch(strings.SplitN(command, "\n", 2)[0], -1) {
		names = append(names, name[1])
	}
	if !found || len(names) == 0 {
		s.t.Fatalf("%s does not name the command:\n%s", process.Name, tail(process.Log))
	}
	s.projectorCommand(0, append([]string{"owners", "release", "--yes", "--why", "moved"}, names...)...)
}

// TestPublishingContinuesInAnotherNamespace checks that losing a Service Bus namespace with
// messages in it loses no event. Both services refuse the new namespace until they are told
// that it is theirs. The read models and other subscribers then get the lost events.
func TestPublishingContinuesInAnotherNamespace(t *testing.T) {
	needsProcesses(t)
	needsStandIns(t, "it brings stand-ins of its own: two namespaces")
	t.Parallel()
	first, err := harness.StartEmbedded(harness.EmbeddedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := newScenarioOver(t, countsWorkload(), first, quickSweeps)
	p := newProcedure(s)
	s.start(1, 1)
	s.insert(counted("a", 1, one), counted("b", 1, one))
	s.awaitCounts("a: n=1 after event 1, b: n=1 after event 1", "a", "b")
	s.stopped(s.projectors()[0])
	before := s.clusterTime()
	s.insert(counted("a", 2, one), counted("c", 1, one))
	s.awaitPublishedEvents(4)
	s.awaitLiveSaved()
	for _, process := range s.Running() {
		s.stopped(process)
	}
	if err := first.Broker.Close(); err != nil {
		t.Fatal(err)
	}
	s.insert(counted("b", 2, one))

	second, err := harness.StartEmbedded(harness.EmbeddedOptions{Record: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.Close() })
	bus := "AZURE_SERVICEBUS_CONNECTION_STRING=" + second.Bus().ConnectionString
	s.SetEnv(bus, quickSweeps)
	for _, process := range []*harness.Process{s.startPublisher(0), s.startProjector(0)} {
		ctx, cancel := context.WithTimeout(t.Context(), settleTimeout())
		defer cancel()
		if err := process.AwaitExit(ctx); err == nil {
			t.Fatalf("%s used the other namespace without a release", process.Name)
		}
		if process.Name == "publisher-0" {
			s.releaseCheckpoint(process)
			continue
		}
		s.releaseOwners(process)
	}
	for _, remedy := range []string{"publisher checkpoint release", "projector owners release"} {
		if !strings.Contains(p.page, remedy) {
			t.Errorf("docs/operations.md does not name %s", remedy)
		}
	}
	s.start(1, 1)
	s.awaitCounts("a: n=2 after event 2, b: n=2 after event 2, c: n=1 after event 1", "a", "b", "c")

	// Other subscribers get the lost events again.
	published := func() int {
		n, err := second.Published()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := published(); n != 1 {
		t.Errorf("%d messages in the new namespace, want the one after the checkpoint", n)
	}
	p.run(0, `/publisher checkpoint set TIME --why "lost namespace"`, before)
	s.await("the lost events on the new topic", func() bool { return published() >= 3 })
	s.insert(counted("c", 2, one))
	s.awaitCounts("a: n=2 after event 2, b: n=2 after event 2, c: n=2 after event 2", "a", "b", "c")
}

// clusterTime returns the event store's time, in the format of the commands.
func (s *scenario) clusterTime() string {
	s.t.Helper()
	var answer struct {
		LocalTime bson.DateTime `bson:"localTime"`
	}
	if err := s.client.Database("admin").RunCommand(s.t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&answer); err != nil {
		s.t.Fatal(err)
	}
	return answer.LocalTime.Time().UTC().Format("2006-01-02T15:04:05Z")
}
