//go:build linux

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/verify"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// pipeline is an event store and a broker in a namespace, with a load.
type pipeline struct {
	t         *testing.T
	namespace string
	workload  *workload.Workload
	mongo     *mongo.Client
	load      *load
	probes    int
}

// events is more than any scenario stores.
const events = 400_000

// newPipeline makes a namespace as docs/install.md describes it, with ready stand-ins and
// the Secrets of the README.
func newPipeline(t *testing.T, namespace string) *pipeline {
	t.Helper()
	start(t)
	kubectl(t, "create", "namespace", namespace)
	kubectl(t, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	kubectl(t, "-n", namespace, "apply", "-f", "testdata/standins.yaml")
	kubectl(t, "-n", namespace, "create", "secret", "generic", "mongodb", "--from-literal=uri=mongodb://mongo:27017/?replicaSet=rs0")
	kubectl(t, "-n", namespace, "create", "secret", "generic", "servicebus",
		"--from-literal=connection-string=Endpoint=sb://sbemu:5672;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true")
	t.Cleanup(func() {
		if t.Failed() {
			report(t, namespace)
		}
		ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
		defer cancel()
		_ = suite.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
	})
	kubectl(t, "-n", namespace, "rollout", "status", "deployment/mongo", "deployment/sbemu", "--timeout=2m")
	service, err := suite.client.CoreV1().Services(namespace).Get(t.Context(), "mongo", metav1.GetOptions{})
	must(t, err)
	// The address that mongoemu advertises can be reached from this process too.
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + service.Spec.ClusterIP + ":27017/?replicaSet=rs0&serverSelectionTimeoutMS=5000"))
	must(t, err)
	p := &pipeline{t: t, namespace: namespace, workload: shop.New(events, 7), mongo: client}
	t.Cleanup(func() {
		p.pause()
		_ = client.Disconnect(context.Background())
	})
	_, err = p.store().Indexes().CreateOne(t.Context(), workload.Index())
	must(t, err)
	must(t, os.WriteFile(p.projections(), p.workload.Projections, 0o600))
	return p
}

// projections returns the path of the projections file.
func (p *pipeline) projections() string { return suite.dir + "/" + p.namespace + "-projections.yaml" }

func (p *pipeline) store() *mongo.Collection {
	return p.mongo.Database(harness.EventsDatabase).Collection("events")
}

func (p *pipeline) readModels() *mongo.Database { return p.mongo.Database(harness.ReadModelsDatabase) }

// resume stores rate events per second in the background, until pause.
func (p *pipeline) resume(rate int) {
	p.t.Helper()
	p.pause()
	if p.load == nil {
		p.load = &load{events: p.workload.Events, store: p.store()}
	}
	p.load.start(rate)
}

// pause stops the load, if one is running.
func (p *pipeline) pause() {
	if p.load != nil {
		p.load.stop()
	}
}

// probesAtOnce is the number of probe events, which are spread over as many sessions.
const probesAtOnce = 8

// recovered waits until events that are stored from now on have reached their read models.
// It returns the time from since until then.
func (p *pipeline) recovered(since time.Time) time.Duration {
	p.t.Helper()
	var ids bson.A
	for range probesAtOnce {
		p.probes++
		id := fmt.Sprintf("probe-%d", p.probes)
		ids = append(ids, id)
		event := workload.Event{
			AggregateID: id, AggregateType: "User", EventID: 1, EventType: "UserRegisteredEvent", Timestamp: time.Now().UTC().Truncate(time.Millisecond),
			Payload: bson.D{{Key: "name", Value: id}, {Key: "email", Value: id + "@example.org"}},
		}
		await(p.t, "an event store that takes a write", func() (bool, string) {
			ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
			defer cancel()
			_, err := p.store().InsertOne(ctx, stored{ID: id + "/1", Event: event})
			return err == nil || mongo.IsDuplicateKeyError(err), fmt.Sprint(err)
		})
	}
	await(p.t, "read models of new events", func() (bool, string) {
		ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
		defer cancel()
		n, err := p.readModels().Collection("userReadModels").CountDocuments(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}})
		return err == nil && n == int64(len(ids)), fmt.Sprintf("%d of %d are there (%v)", n, len(ids), err)
	})
	return time.Since(since)
}

// verify stops the load and waits until every read model equals the fold of the event
// store. It fails if the number of right read models stops growing.
func (p *pipeline) verify() {
	p.t.Helper()
	p.pause()
	standstill := time.NewTimer(settleTimeout)
	defer standstill.Stop()
	for highest := -1; ; {
		begun := time.Now()
		report, err := verify.ReadModels(p.t.Context(), p.store(), p.readModels(), p.workload.Oracle, nil)
		switch {
		case err != nil:
			report = new(verify.Report)
			report.Findings = []string{err.Error()}
		case report.OK():
			p.t.Logf("%d of %d read models of %d events are right", report.Right, report.Expected, report.Events)
			return
		case report.Right > highest:
			highest = report.Right
			standstill.Reset(settleTimeout)
		}
		select {
		case <-time.After(max(250*time.Millisecond, 2*time.Since(begun))):
		case <-standstill.C:
			p.t.Fatalf("%d of %d read models are right, no more for %s:\n%s", report.Right, report.Expected, settleTimeout, strings.Join(report.Findings, "\n"))
		}
	}
}

// parked counts the parked aggregates.
func (p *pipeline) parked() int64 {
	p.t.Helper()
	n, err := p.mongo.Database(harness.StateDatabase).Collection("parked").CountDocuments(p.t.Context(), bson.D{})
	must(p.t, err)
	return n
}

// stored is an event with an _id by which a repeated insert is recognised.
type stored struct {
	ID             string `bson:"_id"`
	workload.Event `bson:",inline"`
}

// load stores events in their order at a steady rate. Only one goroutine uses it at a time.
type load struct {
	events []workload.Event
	store  *mongo.Collection
	next   int
	cancel context.CancelFunc
	ended  chan struct{}
}

// loadTick is the interval at which the load stores the due events.
const loadTick = 50 * time.Millisecond

func (l *load) start(rate int) {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel, l.ended = cancel, make(chan struct{})
	go func() {
		defer close(l.ended)
		l.run(ctx, rate)
	}()
}

func (l *load) stop() {
	if l.cancel == nil {
		return
	}
	l.cancel()
	<-l.ended
	l.cancel = nil
}

// run stores the due events until ctx ends. It repeats a failed insert: events that were
// stored nevertheless are recognised by their ids. While the store is not available, no
// events become due.
func (l *load) run(ctx context.Context, rate int) {
	tick := time.NewTicker(loadTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		due := min(len(l.events), l.next+max(1, int(int64(rate)*int64(loadTick)/int64(time.Second))))
		batch := make([]stored, 0, due-l.next)
		for _, event := range l.events[l.next:due] {
			batch = append(batch, stored{ID: fmt.Sprintf("%s/%d", event.AggregateID, event.EventID), Event: event})
		}
		if len(batch) == 0 {
			return
		}
		// A stop lets the batch finish, so that the next load knows which events are
		// stored.
		attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		_, err := l.store.InsertMany(attempt, batch, options.InsertMany().SetOrdered(false))
		cancel()
		if err == nil || onlyDuplicates(err) {
			l.next = due
		}
	}
}

// onlyDuplicates reports whether all failed inserts were of documents that existed already.
func onlyDuplicates(err error) bool {
	var failed mongo.BulkWriteException
	if !errors.As(err, &failed) || failed.WriteConcernError != nil {
		return false
	}
	for _, e := range failed.WriteErrors {
		if e.Code != 11000 {
			return false
		}
	}
	return true
}
