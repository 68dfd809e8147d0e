package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Plan is one history before it happens: how the pipeline is set up, what the writers write
// and which faults strike when. It is made of plain data, so it can be printed and shrunk.
type Plan struct {
	Seed uint64
	// Length is how long writers write and faults strike. The pipeline then has [Settle] to
	// bring every read model up to date.
	Length time.Duration
	// Publishers and Projectors are how many processes run.
	Publishers, Projectors int
	// Split says that the read models and the state are in another MongoDB than the events, with
	// a clock of its own. Every second fault of MongoDB then strikes that one.
	Split bool
	// Sharded says that MongoDB answers as a mongos.
	Sharded bool
	// Election is how the publishers elect: mongodb or kubernetes.
	Election string
	// Now says that the publishers start with the present changes, and not at the beginning of
	// the event store.
	Now bool
	// Buckets is the number of sessions of the session mode bucket; 0 means one for each
	// aggregate.
	Buckets int
	// Receiver is how the projectors receive sessions: amqp or sdk.
	Receiver string
	// Slots is how many sessions a projector drains at the same time; 0 means its default.
	Slots int
	// Lock is the duration of a session lock.
	Lock time.Duration
	// Duplicates is the window of duplicate detection; 0 means none.
	Duplicates time.Duration
	// Deliveries is how often the broker delivers a message before it dead-letters it; 0 means
	// the broker's default.
	Deliveries uint32
	// Partitioned makes the topic partitioned.
	Partitioned bool
	// ClockOffset is how far the clock of MongoDB is ahead of the processes' clocks at first.
	ClockOffset time.Duration
	// Writers is how many write at the same time, Aggregates how many aggregates each of them
	// has, and Pause the mean time between two of its writes.
	Writers, Aggregates int
	Pause               time.Duration
	// Poison, Unreadable, Large and Late are how many such events each writer writes. A late
	// event is stored after the next one of its aggregate.
	Poison, Unreadable, Large, Late int
	// Archives is how often each writer writes a snapshot of an aggregate and deletes its events
	// before it.
	Archives int
	// FromZero numbers the events of each aggregate from 0 instead of 1.
	FromZero bool
	// Brief says that each aggregate is written for some seconds only, and often ends and begins
	// again in them. So nothing heals later what a late write has done to it.
	Brief bool
	// Wallets makes a fourth of the aggregates wallets. The others are accounts.
	Wallets bool
	// Moves says that the third version of the projections keeps the ledger and the view groups in
	// other collections.
	Moves bool
	// Reconcile says that the projectors compare the read models with the event store every
	// minute. Without it, what live events leave wrong stays wrong, and no fault needs it or
	// heals.
	Reconcile bool
	// Named says that the instances of a process have the same identity, as the containers of a
	// pod do, so a process that starts knows that its predecessor has ended.
	Named  bool
	Faults []Fault
	// Beside is a second pipeline with the same servers; nil if there is none. Only the faults
	// of the first one concern the servers as a whole.
	Beside *Plan
}

// of returns a fault with the MongoDB that it strikes.
func (p *Plan) of(f Fault) Fault {
	if p.Split && f.Server == mongodb && (f.Way+f.Process)%2 == 1 {
		f.Server = stores
	}
	return f
}

// has reports whether the plan has a fault of one of the kinds.
func (p *Plan) has(kinds ...string) bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return slices.Contains(kinds, f.Kind) })
}

// first is the id of the first event of each aggregate.
func (p *Plan) first() int64 {
	if p.FromZero {
		return 0
	}
	return 1
}

// pipelines returns the plan of each pipeline.
func (p *Plan) pipelines() []*Plan {
	if p.Beside == nil {
		return []*Plan{p}
	}
	return []*Plan{p, p.Beside}
}

// Settle is the virtual time in which every read model must equal the fold of its events
// after the last fault: a lease, a session lock, a reconciliation and a rebuild one after the
// other, with their retries.
const Settle = 15 * time.Minute

// Fault is one fault. The fields that a kind does not use are zero.
type Fault struct {
	// At is when it begins, and For how long it lasts.
	At, For time.Duration
	Kind    string
	// Process is the number of the process that it strikes, modulo their count.
	Process int
	// Server is the server that it concerns.
	Server string
	// Way chooses between the variants of the kind.
	Way int
}

// String describes the fault in one line.
func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%8.3fs %s", f.At.Seconds(), f.Kind)
	if f.Server != "" {
		fmt.Fprintf(&b, " %s", f.Server)
	}
	fmt.Fprintf(&b, " process=%d way=%d", f.Process, f.Way)
	if f.For > 0 {
		fmt.Fprintf(&b, " for %v", f.For)
	}
	return b.String()
}

// String describes the plan in one line, without its faults.
func (p *Plan) String() string {
	var beside string
	if p.Beside != nil {
		beside = fmt.Sprintf("; beside it, %s", p.Beside)
	}
	return fmt.Sprintf("seed %d: %v, %d publishers (election by %s, now %v), %d projectors (%s, slots %d), buckets %d, locks of %v, %d deliveries, duplicates %v, partitioned %v, clock %+v, split %v, sharded %v, reconciled %v, named %v, %d writers with %d aggregates, a write every %v, poison %d, unreadable %d, large %d, late %d, archives %d, from 0 %v, brief %v, wallets %v, moves %v, %d faults%s",
		p.Seed, p.Length, p.Publishers, p.Election, p.Now, p.Projectors, p.Receiver, p.Slots, p.Buckets, p.Lock, p.Deliveries, p.Duplicates, p.Partitioned, p.ClockOffset, p.Split, p.Sharded,
		p.Reconcile, p.Named, p.Writers, p.Aggregates, p.Pause, p.Poison, p.Unreadable, p.Large, p.Late, p.Archives, p.FromZero, p.Brief, p.Wallets, p.Moves, len(p.Faults), beside)
}

// NewPlan draws a plan from a seed.
func NewPlan(seed uint64, length time.Duration) *Plan {
	r := rand.New(rand.NewPCG(seed, 0x70656e73746f636b))
	p := &Plan{
		Seed: seed, Length: length,
		Publishers:  1 + r.IntN(3),
		Projectors:  1 + r.IntN(3),
		Election:    pick(r, electionMongoDB, electionKubernetes),
		Buckets:     pick(r, 0, 0, 3, 16),
		Receiver:    pick(r, "amqp", "amqp", "amqp", "sdk"),
		Lock:        pick(r, 10*time.Second, 30*time.Second, time.Minute),
		Duplicates:  pick(r, 0, 30*time.Second, 10*time.Minute),
		Partitioned: r.IntN(4) == 0,
		ClockOffset: time.Duration(r.IntN(3)-1) * time.Duration(r.IntN(300)) * time.Second,
		Writers:     1 + r.IntN(3),
		Aggregates:  5 + r.IntN(30),
		Pause:       time.Duration(300+r.IntN(900)) * time.Millisecond,
		Poison:      r.IntN(3),
		Unreadable:  r.IntN(3),
		Large:       r.IntN(3),
	}
	if r.IntN(20) == 0 {
		// Few pipelines are busy: the CPU time of a history grows with its events, and faults
		// find as many defects with a few hundred events.
		p.Pause /= 3
	}
	p.Pause *= time.Duration(p.Writers)
	kinds := kinds(false)
	// Some histories have few kinds of faults, so that each kind also strikes alone.
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	kinds = kinds[:1+r.IntN(len(kinds))]
	mean := time.Duration(2+r.IntN(20)) * time.Second
	for at := time.Duration(r.Int64N(int64(10 * time.Second))); at < length; at += time.Duration(r.ExpFloat64() * float64(mean)) {
		name := kinds[r.IntN(len(kinds))]
		kind := faultKinds[name]
		if kind.server == kubernetes && p.Election != electionKubernetes {
			continue
		}
		f := Fault{At: at, Kind: name, Process: r.IntN(6), Way: r.IntN(16)}
		if kind.server != "" {
			f.Server = kind.server
		} else if kind.anyServer {
			f.Server = pick(r, mongodb, servicebus, kubernetes)
		}
		if kind.longest > 0 {
			// Most faults are short, and some outlast every lease and lock.
			f.For = time.Duration(float64(kind.longest) * r.Float64() * r.Float64())
		}
		p.Faults = append(p.Faults, f)
	}
	p.more(rand.New(rand.NewPCG(seed, 0x6d6f7265)))
	// From a source of its own, so that the rest of a seed's plan does not depend on it.
	p.Reconcile = rand.New(rand.NewPCG(seed, 0x7265636f6e63696c)).IntN(3) > 0
	if !p.Reconcile {
		p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool {
			kind := faultKinds[f.Kind]
			return kind.reconciled || kind.later
		})
	}
	// Only reconciliation finds the last event of an aggregate that the broker has set aside.
	p.Deliveries = 1000
	if p.Reconcile {
		p.Deliveries = pick[uint32](rand.New(rand.NewPCG(seed, 0x64656c6976657279)), 0, 0, 2, 3)
	}
	if r := rand.New(rand.NewPCG(seed, 0x6272696566)); !p.Reconcile && r.IntN(2) == 0 {
		p.Brief = true
		for at := time.Duration(0); at < length; at += time.Duration(r.Int64N(int64(20 * time.Second))) {
			p.Faults = append(p.Faults, Fault{At: at, For: time.Duration(r.Int64N(int64(15 * time.Second))), Kind: lateness, Process: r.IntN(6), Way: pick(r, lateToLedger, lateToWatermarks)})
		}
		for at := time.Duration(0); at < length; at += time.Duration(r.Int64N(int64(30 * time.Second))) {
			p.Faults = append(p.Faults, Fault{At: at, For: time.Duration(r.Int64N(int64(8 * time.Second))), Kind: pick(r, failover, lostRequests), Server: mongodb, Process: r.IntN(3), Way: 1 + r.IntN(3)})
		}
	}
	p.Wallets = rand.New(rand.NewPCG(seed, 0x77616c6c657473)).IntN(2) == 0
	if r := rand.New(rand.NewPCG(seed, 0x636f7272656374)); p.Poison+p.Unreadable > 0 && r.IntN(2) == 0 {
		at := length/4 + time.Duration(r.Int64N(int64(length/2)))
		p.Faults = append(p.Faults, Fault{At: at, Kind: correction, Way: r.IntN(2)})
	}
	p.FromZero = rand.New(rand.NewPCG(seed, 0x7a65726f)).IntN(3) == 0
	p.Slots = pick(rand.New(rand.NewPCG(seed, 0x736c6f7473)), 0, 0, 2, 6)
	if r := rand.New(rand.NewPCG(seed, 0x7265706c616365)); r.IntN(6) == 0 {
		for range 1 + r.IntN(2) {
			p.Faults = append(p.Faults, Fault{At: time.Duration(r.Int64N(int64(length))), Kind: replacement, Way: r.IntN(2)})
		}
	}
	if r := rand.New(rand.NewPCG(seed, 0x7265707562)); r.IntN(6) == 0 {
		for range 1 + r.IntN(3) {
			p.Faults = append(p.Faults, Fault{At: time.Duration(r.Int64N(int64(length))), Kind: republication, Way: r.IntN(16)})
		}
	}
	if r := rand.New(rand.NewPCG(seed, 0x6c617465)); r.IntN(4) == 0 {
		p.Late = 1 + r.IntN(3)
	}
	if r := rand.New(rand.NewPCG(seed, 0x77726974656c61)); r.IntN(3) == 0 {
		for range 1 + r.IntN(5) {
			p.Faults = append(p.Faults, Fault{At: time.Duration(r.Int64N(int64(length))), For: time.Duration(r.Int64N(int64(time.Minute))), Kind: lateness, Process: r.IntN(6), Way: r.IntN(16)})
		}
	}
	if r := rand.New(rand.NewPCG(seed, 0x61726368697665)); r.IntN(3) == 0 {
		p.Archives = 1 + r.IntN(10)
	}
	p.Split = rand.New(rand.NewPCG(seed, 0x73706c6974)).IntN(4) == 0
	p.Sharded = rand.New(rand.NewPCG(seed, 0x73686172646564)).IntN(6) == 0
	p.Moves = rand.New(rand.NewPCG(seed, 0x6d6f766573)).IntN(3) == 0
	p.Named = rand.New(rand.NewPCG(seed, 0x7365617473)).IntN(5) >= 2
	drawErasures(p)
	p.Beside = neighbour(p)
	if r := rand.New(rand.NewPCG(seed, 0x726573746f7265)); p.Beside == nil && p.Reconcile && r.IntN(4) == 0 {
		kind := pick(r, restoration, stateRestoration)
		p.Faults = append(p.Faults, Fault{At: time.Duration(r.Int64N(int64(length))), For: time.Duration(r.Int64N(int64(2 * time.Minute))), Kind: kind, Way: r.IntN(3)})
	}
	if r := rand.New(rand.NewPCG(seed, 0x726566757365)); p.Beside == nil && r.IntN(2) == 0 {
		for range 1 + r.IntN(2) {
			p.Faults = append(p.Faults, Fault{At: time.Duration(r.Int64N(int64(length))), For: 30*time.Second + time.Duration(r.Int64N(int64(time.Minute))), Kind: refusal, Way: r.IntN(16)})
		}
	}
	// Without its checkpoint, a stream that starts now would skip what was written meanwhile. A
	// scan leaves out events that are older than the start by the clocks of their writers: if
	// MongoDB's is far ahead, only reconciliation finds those that are the last of an aggregate.
	p.Now = rand.New(rand.NewPCG(seed, 0x6e6f77)).IntN(5) == 0 && (p.Reconcile || p.ClockOffset < time.Minute) && !p.has(stateRestoration)
	if r := rand.New(rand.NewPCG(seed, 0x6669727374)); p.Now && r.IntN(2) == 0 {
		p.Faults = append(p.Faults, Fault{For: time.Duration(r.Int64N(int64(5 * time.Second))), Kind: firstTerm, Way: r.IntN(2)})
	}
	drawIntrusions(p)
	drawAmbushes(p)
	if r := rand.New(rand.NewPCG(seed, 0x736c6f777363616e)); p.Beside == nil && r.IntN(6) == 0 {
		at := time.Duration(r.Int64N(int64(length * 2 / 3)))
		p.Faults = append(p.Faults, Fault{At: at, For: time.Duration(r.Int64N(int64(time.Minute))), Kind: slowScan})
	}
	drawCalm(p)
	return p
}

// neighbour draws the pipeline beside another one; most have none.
func neighbour(p *Plan) *Plan {
	r := rand.New(rand.NewPCG(p.Seed, 0x626573696465))
	if r.IntN(6) > 0 {
		return nil
	}
	n := *p
	n.Seed, n.Faults = r.Uint64(), nil
	n.Publishers, n.Projectors = 1+r.IntN(2), 1+r.IntN(2)
	n.Election, n.Buckets, n.Receiver = pick(r, electionMongoDB, electionKubernetes), pick(r, 0, 3), pick(r, "amqp", "sdk")
	n.Writers, n.Aggregates, n.Pause = 1, 5+r.IntN(10), time.Duration(200+r.IntN(800))*time.Millisecond
	n.Poison, n.Unreadable, n.Large = r.IntN(2), r.IntN(2), 0
	kinds := slices.DeleteFunc(slices.Sorted(maps.Keys(faultKinds)), func(name string) bool {
		kind := faultKinds[name]
		return kind.alone || kind.server != "" || kind.wide || !p.Reconcile && (kind.reconciled || kind.later)
	})
	mean := float64(time.Minute)
	for at := time.Duration(r.ExpFloat64() * mean); at < p.Length; at += time.Duration(r.ExpFloat64() * mean) {
		name := kinds[r.IntN(len(kinds))]
		n.Faults = append(n.Faults, Fault{
			At: at, Kind: name, Process: r.IntN(6), Way: r.IntN(16), Server: pick(r, mongodb, servicebus, kubernetes),
			For: time.Duration(float64(faultKinds[name].longest) * r.Float64() * r.Float64()),
		})
	}
	return &n
}

// more adds what was added to plans later. It draws from a source of its own, so that a seed
// keeps the rest of its plan.
func (p *Plan) more(r *rand.Rand) {
	kinds := kinds(true)
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	if kinds = kinds[:r.IntN(len(kinds)+1)]; len(kinds) == 0 {
		return
	}
	mean := time.Duration(10+r.IntN(90)) * time.Second
	for at := time.Duration(r.ExpFloat64() * float64(mean)); at < p.Length; at += time.Duration(r.ExpFloat64() * float64(mean)) {
		name := kinds[r.IntN(len(kinds))]
		p.Faults = append(p.Faults, Fault{
			At: at, Kind: name, Process: r.IntN(6), Way: r.IntN(16), Server: faultKinds[name].server,
			For: time.Duration(float64(faultKinds[name].longest) * r.Float64() * r.Float64()),
		})
	}
}

// kinds returns the names of the kinds of faults, in order: those of [NewPlan], or those of
// [Plan.more].
func kinds(later bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(faultKinds)), func(name string) bool {
		return faultKinds[name].alone || faultKinds[name].later != later
	})
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
