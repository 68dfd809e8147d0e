package simulation

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/virtual"
)

// faultKind is a kind of fault: what it concerns, and what it does to the world.
type faultKind struct {
	// longest bounds the duration; 0 means that the fault is over at once.
	longest time.Duration
	// server is the only server that the kind concerns; anyServer draws one.
	server    string
	anyServer bool
	// later says that [Plan.more] draws the kind, and alone that [NewPlan] draws it from a source
	// of its own. All new kinds are alone: seeds then keep the other faults of their plans.
	later, alone bool
	// events says that the kind concerns the event store only, and not another MongoDB.
	events bool
	// wide says that the kind concerns more than the processes of one pipeline.
	wide bool
	// reconciled says that the kind needs reconciliation, or heals as it does.
	reconciled bool
	// calm says that the kind strikes after all others, when nothing is left to do.
	calm bool
	// run strikes, waits while the fault lasts, and ends it. ctx ends when the faults of the
	// history are over.
	run func(ctx context.Context, w *World, f Fault)
}

// removal is the kind of fault that removes the projection tally and brings it back.
const removal = "remove a projection"

// correction is the kind of fault that corrects events in the event store.
const correction = "correct events"

// replacement is the kind of fault that replaces the collection of the event store by a copy.
const replacement = "replace the event store"

// republication is the kind of fault that sends the events of the last time again.
const republication = "republish a time"

// restoration is the kind of fault that restores the read models to an earlier time.
const restoration = "restore the read models"

// stateRestoration is the kind of fault that restores the state database to an earlier time, or
// loses it.
const stateRestoration = "restore the state"

// refusal is the kind of fault in which the topic refuses some events: explicitly, so that they
// go to the quarantine, or for a reason of its own, so that they wait.
const refusal = "refuse events"

// failover is the kind of fault in which MongoDB loses its primary, and with it what no other
// member has.
const failover = "fail over"

// lostRequests is the kind of fault in which writes of projectors do not reach MongoDB.
const lostRequests = "lose requests"

// lateness is the kind of fault in which MongoDB carries out writes late, also after their
// process has crashed and its successor has written.
const lateness = "write late"

// firstTerm is the kind of fault in which the first term of a stream that starts now ends before an
// event is acknowledged.
const firstTerm = "end the first term"

// slowScan is the kind of fault in which the topic holds a scan of the event store up for a minute.
const slowScan = "scan slowly"

// The ways of [lateness] that concern the read models of the ledger, the watermarks of aggregates
// without a read model, and the last save of a term.
const lateToLedger, lateToWatermarks, lateToCheckpoint = 1, 2, 3

// faultKinds are all kinds by name.
var faultKinds = map[string]faultKind{
	"crash publisher": {longest: 40 * time.Second, run: func(ctx context.Context, w *World, f Fault) {
		w.restart(ctx, w.publishers[f.Process%len(w.publishers)], f, true)
	}},
	"stop publisher": {longest: 40 * time.Second, run: func(ctx context.Context, w *World, f Fault) {
		w.restart(ctx, w.publishers[f.Process%len(w.publishers)], f, false)
	}},
	"crash projector": {longest: 2 * time.Minute, run: func(ctx context.Context, w *World, f Fault) {
		w.restart(ctx, w.projectors[f.Process%len(w.projectors)], f, true)
	}},
	"stop projector": {longest: 2 * time.Minute, run: func(ctx context.Context, w *World, f Fault) {
		w.restart(ctx, w.projectors[f.Process%len(w.projectors)], f, false)
	}},
	"partition": {longest: 90 * time.Second, anyServer: true, run: func(ctx context.Context, w *World, f Fault) {
		w.onLink(ctx, f, func(h *virtual.Host) { h.Cut(f.Server, f.Way%2 == 0) })
	}},
	"hold": {longest: 3 * time.Minute, anyServer: true, run: func(ctx context.Context, w *World, f Fault) {
		w.onLink(ctx, f, func(h *virtual.Host) {
			switch f.Way % 4 {
			case 0:
				h.Hold(f.Server, virtual.ToServer)
			case 1:
				h.Hold(f.Server, virtual.ToClient)
			default:
				h.Hold(f.Server, virtual.ToServer, virtual.ToClient)
			}
		})
	}},
	"freeze": {longest: 3 * time.Minute, run: func(ctx context.Context, w *World, f Fault) {
		w.freeze(ctx, w.process(f), f.For)
	}},
	// All processes lose a server, as at its restart or failover.
	"outage": {wide: true, longest: 2 * time.Minute, anyServer: true, run: func(ctx context.Context, w *World, f Fault) {
		w.outage(ctx, f, f.For, func() {
			if f.Server == mongodb || f.Server == stores {
				w.mongodb(f).KillCursors()
			}
		})
	}},
	// The primary loses its secondaries. Either they come back, or one of them becomes the
	// primary, and what only the old one has is rolled back.
	failover: {later: true, server: mongodb, longest: 20 * time.Second, run: func(ctx context.Context, w *World, f Fault) {
		server := w.mongodb(f)
		_ = server.Isolate()
		wait(ctx, f.For)
		if f.Way%4 == 0 {
			server.Rejoin()
			return
		}
		w.outage(ctx, f, time.Duration(f.Process)*2*time.Second, func() { _ = server.Failover() })
	}},
	// What is durable stays; connections, cursors, open transactions and locks are gone.
	"restart": {later: true, wide: true, longest: time.Minute, run: func(ctx context.Context, w *World, f Fault) {
		if f.Server = mongodb; f.Way%4 < 2 {
			f.Server = servicebus
		}
		f = w.plan.of(f)
		w.outage(ctx, f, f.For, func() {
			if f.Server != servicebus {
				_ = w.mongodb(f).Failover()
				return
			}
			for _, pipeline := range w.pipelines {
				pipeline.loseSessionLocks(1)
			}
		})
	}},
	"slow link": {longest: time.Minute, anyServer: true, run: func(ctx context.Context, w *World, f Fault) {
		w.onLink(ctx, f, func(h *virtual.Host) { h.Slow(f.Server, time.Duration(1+f.Way)*100*time.Millisecond) })
	}},
	"drop connections": {anyServer: true, run: func(_ context.Context, w *World, f Fault) {
		w.process(f).host().Drop(f.Server, f.Way%2 == 0)
	}},
	"interrupt streams": {server: mongodb, events: true, run: func(_ context.Context, w *World, f Fault) {
		w.mongo.InterruptStreams([]int32{0, 10107, 189, 91, 13435, 43, 237, 234}[f.Way%8])
	}},
	"lose the oplog": {server: mongodb, events: true, run: func(ctx context.Context, w *World, f Fault) {
		if f.Process%2 == 0 {
			w.mongo.TruncateOplog(1 + f.Way)
			return
		}
		// The publishers lose their place, and writers write while they scan slowly.
		each := func(do func(h *virtual.Host)) {
			for _, p := range w.publishers {
				do(p.host())
			}
		}
		each(func(h *virtual.Host) { h.Hold(mongodb, virtual.ToClient) })
		wait(ctx, 5*time.Second)
		w.mongo.TruncateOplog(1 + f.Way)
		w.mongo.InterruptStreams(0)
		each(func(h *virtual.Host) { h.Heal(mongodb); h.Slow(mongodb, time.Second) })
		wait(ctx, 20*time.Second)
		each(func(h *virtual.Host) { h.Heal(mongodb) })
	}},
	// The server's clock is set, or a new primary has another one. Nothing compares the clocks
	// of two processes: leases end by the server's clock, and are trusted by the time that has
	// passed.
	"set the clock": {later: true, server: mongodb, run: func(_ context.Context, w *World, f Fault) {
		w.mongodb(f).ahead.Store(int64(time.Duration(f.Way-8) * 35 * time.Second))
	}},
	"let the clock drift": {later: true, server: mongodb, longest: 3 * time.Minute, run: func(ctx context.Context, w *World, f Fault) {
		for end := time.Now().Add(f.For); ctx.Err() == nil && time.Now().Before(end); wait(ctx, time.Second) {
			w.mongodb(f).ahead.Add(int64(time.Duration(f.Way-8) * 10 * time.Millisecond)) // by up to 8 %
		}
	}},
	"slow MongoDB": {server: mongodb, longest: time.Minute, run: func(ctx context.Context, w *World, f Fault) {
		w.mongodb(f).SetLatency(time.Duration(f.Way) * 100 * time.Millisecond)
		wait(ctx, f.For)
		w.mongodb(f).SetLatency(0)
	}},
	"refuse commands": {server: mongodb, run: func(_ context.Context, w *World, f Fault) {
		commands := [][]string{{"insert"}, {"update"}, {"find"}, {"getMore"}, {"aggregate"}, {"commitTransaction"}, {"findAndModify"}, nil}
		w.mongodb(f).FailCommands(mongoemu.CommandFault{
			Commands: commands[f.Way%len(commands)], Times: 1 + f.Process*3, Skip: f.Process,
			Code: []int32{10107, 91, 189, 11600, 112, 6}[(f.Way+f.Process)%6],
		})
	}},
	"lose replies": {server: mongodb, run: func(_ context.Context, w *World, f Fault) {
		commands := [][]string{{"insert"}, {"update"}, {"commitTransaction"}, {"findAndModify"}, {"renameCollection"}, {"delete"}, nil}
		w.mongodb(f).FailCommands(mongoemu.CommandFault{
			Commands: commands[f.Way%len(commands)], Times: 1 + f.Process, CloseConnection: true, AfterExecution: true,
		})
	}},
	lostRequests: {alone: true, run: func(_ context.Context, w *World, f Fault) {
		w.stores.FailCommands(mongoemu.CommandFault{
			Commands: []string{"insert", "update", "delete", "commitTransaction"}, AppName: "penstock-projector", Times: 1 + f.Process, CloseConnection: true,
		})
	}},
	"refuse API requests": {server: kubernetes, run: func(_ context.Context, w *World, f Fault) {
		w.kube.refuse(1+f.Process*4, []int{500, 503, 429, 409, 403}[f.Way%5])
	}},
	"delete the lease": {wide: true, run: func(ctx context.Context, w *World, _ Fault) {
		w.history.deletedLease()
		w.kube.deleteLeases()
		_, _ = w.stores.client.Database(stateDatabase).Collection("leader_leases").DeleteMany(ctx, bson.D{})
	}},
	"throttle": {server: servicebus, longest: time.Minute, run: func(_ context.Context, w *World, f Fault) { w.bus.Throttle(f.For) }},
	"refuse links": {server: servicebus, longest: time.Minute, run: func(_ context.Context, w *World, f Fault) {
		w.bus.RefuseLinks(f.For, []string{"amqp:internal-error", "com.microsoft:server-busy", "amqp:not-found", "com.microsoft:timeout"}[f.Way%4])
	}},
	"refuse sends": {server: servicebus, run: func(_ context.Context, w *World, f Fault) {
		w.bus.RefuseSends(w.topic(), 1+f.Process*4, []string{"amqp:internal-error", "com.microsoft:server-busy", "com.microsoft:timeout", "amqp:resource-limit-exceeded"}[f.Way%4])
	}},
	"detach links": {server: servicebus, run: func(_ context.Context, w *World, f Fault) {
		entity := []string{w.topic(), w.subscription(), w.subscription() + "/$management"}[f.Way%3]
		condition := []string{
			"amqp:link:detach-forced", "com.microsoft:timeout", "amqp:link:message-size-exceeded",
			"amqp:not-allowed", "amqp:not-found", "com.microsoft:entity-disabled",
		}[f.Process%6]
		if w.plan.Receiver == "sdk" && f.Way%3 > 0 && condition == "com.microsoft:timeout" {
			// A goroutine of the SDK would receive again without a pause, and virtual time would stop
			// (receiver.go, newReleaserFunc).
			condition = "amqp:link:detach-forced"
		}
		_ = w.bus.DetachLinks(entity, condition)
	}},
	// The broker ends the links of a client whose claim has expired.
	"expire claims": {later: true, server: servicebus, run: func(_ context.Context, w *World, _ Fault) {
		for _, entity := range []string{w.topic(), w.subscription(), w.subscription() + "/$management"} {
			_ = w.bus.DetachLinks(entity, "amqp:unauthorized-access")
		}
	}},
	"lose session locks": {server: servicebus, run: func(_ context.Context, w *World, f Fault) {
		w.loseSessionLocks(1 + f.Way)
	}},
	"lose messages": {server: servicebus, reconciled: true, longest: 20 * time.Second, run: func(ctx context.Context, w *World, f Fault) {
		_ = w.bus.LoseMessages(w.topic(), w.losing(everyNth(3+f.Way)))
		wait(ctx, f.For)
		_ = w.bus.LoseMessages(w.topic(), nil)
	}},
	"expire messages": {server: servicebus, reconciled: true, longest: 20 * time.Second, run: func(ctx context.Context, w *World, f Fault) {
		_ = w.bus.ExpireMessages(w.topic(), w.losing(everyNth(3+f.Way)))
		wait(ctx, f.For)
		_ = w.bus.ExpireMessages(w.topic(), nil)
	}},
	"change definition": {reconciled: true, longest: time.Minute, run: func(ctx context.Context, w *World, f Fault) {
		w.rollout(ctx, 1+f.Way%3, f.For)
	}},
	// A, B and A again, or two changes in a row, each before the last one is built.
	"change definition twice": {later: true, longest: time.Minute, run: func(ctx context.Context, w *World, f Fault) {
		w.mu.Lock()
		first := w.definition
		w.mu.Unlock()
		w.rollout(ctx, 1+f.Way%definitions, f.For/4)
		wait(ctx, f.For/2)
		if f.Way%2 == 0 {
			w.rollout(ctx, first, f.For/4)
			return
		}
		w.rollout(ctx, 1+(f.Way+1)%definitions, f.For/4)
	}},
	removal: {later: true, longest: 3 * time.Minute, run: func(ctx context.Context, w *World, f Fault) {
		w.mu.Lock()
		version := w.definition
		w.mu.Unlock()
		if version > definitions {
			return
		}
		w.rollout(ctx, version+definitions, f.For/4)
		wait(ctx, f.For)
		if f.Way%2 == 0 {
			_ = w.command(ctx, virtual.Projector, "projections", "drop", w.named("tally"), "--yes", "--why", "simulation")
		}
		w.rollout(context.WithoutCancel(ctx), version, 0)
	}},
	"scale up": {later: true, longest: time.Minute, run: func(ctx context.Context, w *World, f Fault) {
		spares := w.spares[:1+f.Way%len(w.spares)]
		w.turn(true, spares)
		wait(ctx, f.For)
		w.turn(false, spares)
	}},
	"set aside and bring back": {later: true, reconciled: true, run: func(ctx context.Context, w *World, f Fault) {
		commands := [][]string{
			{"publisher", "republish", "--quarantine", "--yes", "--why", "simulation"},
			{"projector", "deadletters", "discard", "--applied", "--yes", "--why", "simulation"},
			{"projector", "deadletters", "list"},
		}
		c := commands[f.Way%len(commands)]
		_ = w.command(ctx, virtual.Kind(c[0]), c[1:]...)
	}},
	"discard parked aggregates": {later: true, run: func(ctx context.Context, w *World, _ Fault) {
		_ = w.command(ctx, virtual.Projector, "parked", "discard", "--yes", "--why", "simulation")
	}},
	"move the checkpoint": {later: true, run: func(ctx context.Context, w *World, f Fault) {
		set := func(to string) {
			_ = w.command(ctx, virtual.Publisher, "checkpoint", "set", to, "--yes", "--why", "simulation")
		}
		switch way := f.Way % 4; {
		case way == 1:
			w.skipping(false, func() { set("now") })
		case way == 3 && !w.replaced.Load():
			// The command refuses a time that has not passed by the operator's clock.
			offset := min(0, time.Duration(w.mongo.ahead.Load()))
			to := time.Now().Add(offset - time.Duration(1+f.Process)*20*time.Second)
			w.skipping(false, func() { set(to.UTC().Format(time.RFC3339)) })
		default:
			set("beginning")
		}
	}},
	correction: {alone: true, run: func(ctx context.Context, w *World, f Fault) {
		if w.correct(ctx, f.Way%2 == 0) {
			w.bringBack(ctx)
		}
	}},
	firstTerm: {alone: true, run: func(ctx context.Context, w *World, f Fault) {
		w.bus.Throttle(20 * time.Second)
		for w.history.following().IsZero() && ctx.Err() == nil {
			wait(ctx, 20*time.Millisecond)
		}
		wait(ctx, f.For)
		for _, p := range w.publishers {
			w.crash(p, f.Way%2 == 0)
		}
		for _, p := range w.publishers {
			w.start(p)
		}
	}},
	slowScan: {alone: true, run: func(ctx context.Context, w *World, f Fault) {
		_ = w.command(ctx, virtual.Publisher, "checkpoint", "set", "beginning", "--yes", "--why", "simulation")
		w.bus.Throttle(time.Minute + f.For)
	}},
	hiding:        {alone: true, calm: true, run: func(ctx context.Context, w *World, f Fault) { w.hide(ctx, f) }},
	singleErasure: {alone: true, calm: true, run: func(ctx context.Context, w *World, f Fault) { w.eraseOnce(ctx, f) }},
	erasure:       {alone: true, run: func(ctx context.Context, w *World, f Fault) { w.erase(ctx, f) }},
	ambush:        {alone: true, reconciled: true, run: func(ctx context.Context, w *World, f Fault) { w.ambush(ctx, f) }},
	intrusion:     {alone: true, run: func(ctx context.Context, w *World, f Fault) { w.intrude(ctx, f) }},
	// A scan after a start of now leaves out what is older, by a clock that may be ahead. Only a sweep
	// applies it.
	replacement: {alone: true, run: func(ctx context.Context, w *World, f Fault) {
		w.replaceEvents(ctx, f.Way == 0 && w.plan.Reconcile)
	}},
	republication: {alone: true, run: func(ctx context.Context, w *World, f Fault) {
		to := time.Now().UTC()
		from := to.Add(-time.Duration(1+f.Way) * 20 * time.Second)
		_ = w.command(ctx, virtual.Publisher, "republish", "--from", from.Format(time.RFC3339), "--to", to.Format(time.RFC3339), "--yes", "--why", "simulation")
	}},
	restoration:      {alone: true, wide: true, reconciled: true, run: func(ctx context.Context, w *World, f Fault) { w.restoreModels(ctx, f.For) }},
	stateRestoration: {alone: true, wide: true, reconciled: true, run: func(ctx context.Context, w *World, f Fault) { w.restoreState(ctx, f.For, f.Way == 0) }},
	refusal: {alone: true, run: func(ctx context.Context, w *World, f Fault) {
		condition, matches := "amqp:internal-error", everyNth(3+f.Way)
		if f.Way%2 == 0 {
			condition, matches = "amqp:not-allowed", w.refusing(matches)
		}
		w.bus.RefuseMessages(matches, condition)
		wait(ctx, f.For)
		w.bus.RefuseMessages(func(string) bool { return false }, condition)
	}},
	lateness: {alone: true, run: func(ctx context.Context, w *World, f Fault) {
		targets := []struct{ app, collection string }{
			{"penstock-publisher", "checkpoints"}, {"penstock-projector", w.named("ledger")}, {"penstock-projector", "watermarks"},
			{"penstock-publisher", "checkpoints"}, {"penstock-projector", "projectors"}, {"penstock-projector", w.named("tally")},
		}
		target, processes := targets[f.Way%len(targets)], w.publishers
		if target.app == "penstock-projector" {
			processes = w.projectors
		}
		w.stores.FailCommands(mongoemu.CommandFault{
			Commands: []string{"update", "findAndModify", "delete", "insert"}, AppName: target.app, Collection: target.collection,
			Times: 1 + f.Process, Block: time.Second + f.For,
		})
		wait(ctx, 2*time.Second)
		if leader := w.leader(); f.Way%len(targets) == lateToCheckpoint && leader != nil {
			// The next term has nothing to save until the late save comes.
			w.bus.Throttle(2*time.Second + f.For)
			w.restart(ctx, leader, Fault{}, true)
		} else if f.Process%3 > 0 {
			w.restart(ctx, processes[f.Process%len(processes)], Fault{Way: 0}, true)
		}
	}},
	"scale projectors": {longest: time.Minute, run: func(ctx context.Context, w *World, f Fault) {
		for i, p := range w.projectors {
			if i >= f.Process%(len(w.projectors)+1) {
				w.stop(p)
			}
		}
		wait(ctx, f.For)
		for _, p := range w.projectors {
			w.start(p)
		}
	}},
	"run a command": {run: func(ctx context.Context, w *World, f Fault) {
		commands := [][]string{
			{"projector", "verify", "--grace", "5s"},
			{"projector", "verify", "--repair", "--yes", "--why", "simulation"},
			{"projector", "parked", "retry", "--yes", "--why", "simulation"},
			{"projector", "status"},
			{"projector", "projections", "rebuild", w.named("ledger"), "--yes", "--why", "simulation"},
			{"publisher", "status"},
			{"publisher", "republish", "--aggregate", "a0", "--yes", "--why", "simulation"},
			{"projector", "projections", "cancel", w.named("ledger"), "--yes", "--why", "simulation"},
		}
		c := commands[f.Way%len(commands)]
		heals := slices.ContainsFunc(c, func(word string) bool { return slices.Contains([]string{"--repair", "rebuild", "cancel"}, word) })
		if heals && !w.plan.Reconcile {
			return
		}
		if slices.Contains(c, "cancel") || slices.Contains(c, "rebuild") {
			w.leavesUnbuilt()
		}
		_ = w.command(ctx, virtual.Kind(c[0]), c[1:]...)
	}},
}

// loseSessionLocks takes the lock of one of n sessions of the subscription.
func (w *World) loseSessionLocks(n int) {
	sessions, _ := w.bus.Sessions(w.subscription())
	for i, s := range sessions {
		if i%n == 0 {
			_ = w.bus.LoseSessionLock(w.subscription(), s.ID)
		}
	}
}

// everyNth selects one of n message ids, always the same ones.
func everyNth(n int) func(string) bool {
	return func(id string) bool {
		sum := 0
		for _, b := range []byte(id) {
			sum = sum*31 + int(b)
		}
		return sum%n == 0
	}
}

// wait waits for d, or until the faults are over.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// processes are all processes, publishers first.
func (w *World) processes() []*process { return slices.Concat(w.publishers, w.projectors) }

// process returns the process that a fault strikes.
func (w *World) process(f Fault) *process {
	all := w.processes()
	return all[f.Process%len(all)]
}

// outage cuts the links of the processes of all pipelines to the server of a fault. down
// happens meanwhile.
func (s *servers) outage(ctx context.Context, f Fault, last time.Duration, down func()) {
	var hosts []*virtual.Host
	for _, pipeline := range s.pipelines {
		for _, p := range pipeline.processes() {
			h := p.host()
			h.Cut(f.Server, f.Way%2 == 0)
			hosts = append(hosts, h)
		}
	}
	down()
	wait(ctx, last)
	for _, h := range hosts {
		h.Heal(f.Server)
	}
}

// freeze holds all links of a process for a while.
func (w *World) freeze(ctx context.Context, p *process, lasts time.Duration) {
	h := p.host()
	for _, server := range virtual.Servers {
		h.Hold(server, virtual.ToServer, virtual.ToClient)
	}
	wait(ctx, lasts)
	for _, server := range virtual.Servers {
		h.Heal(server)
	}
}

// onLink changes the link of a process to the server of the fault while the fault lasts.
func (w *World) onLink(ctx context.Context, f Fault, do func(h *virtual.Host)) {
	h := w.process(f).host()
	do(h)
	wait(ctx, f.For)
	h.Heal(f.Server)
}
