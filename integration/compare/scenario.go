package compare

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/workload"
)

// eventsPerAggregate is how many events an aggregate has.
const eventsPerAggregate = 10

// note makes an event about 650 bytes large.
var note = strings.Repeat("x", 480)

// makeEvents makes n events of n/10 aggregates, whose events are interleaved.
func makeEvents(n int) []workload.Event {
	aggregates := max(1, n/eventsPerAggregate)
	events := make([]workload.Event, n)
	for i := range events {
		events[i] = workload.Event{
			AggregateID: fmt.Sprintf("order-%06d", i%aggregates), AggregateType: "Order", EventID: int64(i/aggregates + 1), EventType: "OrderChangedEvent",
			Timestamp: time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Millisecond),
			Payload:   bson.D{{Key: "status", Value: "open"}, {Key: "note", Value: note}},
		}
	}
	return events
}

// delivery is how the arrivals differ from the stored events.
type delivery struct{ lost, repeated, disordered int }

// judge compares arrivals with n stored events. An event is out of order if it arrives for
// the first time after a later one of its aggregate.
func judge(arrivals []arrival, n int) delivery {
	seen := make(map[key]struct{}, n)
	last := make(map[string]int64)
	var d delivery
	for _, a := range arrivals {
		if _, again := seen[a.key]; again {
			d.repeated++
			continue
		}
		seen[a.key] = struct{}{}
		if a.id < last[a.aggregate] {
			d.disordered++
		}
		last[a.aggregate] = max(last[a.aggregate], a.id)
	}
	d.lost = n - len(seen)
	return d
}

// firsts are the times at which events have arrived for the first time.
func firsts(arrivals []arrival) map[key]time.Time {
	at := make(map[key]time.Time)
	for _, a := range arrivals {
		if _, again := at[a.key]; !again {
			at[a.key] = a.at
		}
	}
	return at
}

// scenario is what all contenders do. Its figures are the cells of the table's rows.
type scenario struct {
	name string
	rows []string
	// live says that events are stored while the program runs.
	live bool
	run  func(ctx context.Context, c *course) (cells []string, err error)
}

func scenarios() []scenario {
	return []scenario{
		{name: "snapshot", rows: []string{"start to the first event, s", "snapshot, events/s", "CPU for an event, µs", "memory at most, MiB"}, run: snapshot},
		{name: "kill -9 in the snapshot", rows: []string{"kill -9 in the snapshot: lost / repeated / out of order"}, run: snapshotKilled},
		{name: "live", live: true, rows: []string{"live p50 / p99, ms", "CPU, % of a core; memory at most, MiB"}, run: live},
		{name: "kill -9 live", live: true, rows: []string{"kill -9 live: lost / repeated / out of order", "from the restart to the next event, s"}, run: liveKilled},
		{name: "two at once", live: true, rows: []string{"two at once: lost / repeated / out of order"}, run: two},
	}
}

func snapshot(ctx context.Context, c *course) ([]string, error) {
	if err := c.load(ctx, makeEvents(c.Events)); err != nil {
		return nil, err
	}
	_, begun, err := c.begin(0)
	if err != nil {
		return nil, err
	}
	// A program that ends after the snapshot takes its figures along, so they are read while
	// it runs.
	half := c.Events / 2
	if err := c.await(ctx, half); err != nil {
		return nil, err
	}
	used, err := c.usage()
	if err != nil {
		return nil, err
	}
	counted, _ := c.sink.counts()
	if err := c.await(ctx, c.Events); err != nil {
		return nil, err
	}
	if atEnd, err := c.usage(); err == nil {
		used, counted = atEnd, c.Events
	}
	arrivals, err := c.sink.arrivals()
	if err != nil {
		return nil, err
	}
	took := arrivals[len(arrivals)-1].at.Sub(begun)
	return []string{
		fmt.Sprintf("%.2f", arrivals[0].at.Sub(begun).Seconds()),
		number(float64(len(firsts(arrivals))) / took.Seconds()),
		fmt.Sprintf("%.0f", float64(used.cpu.Microseconds())/float64(counted)),
		mebibytes(used.peak),
	}, nil
}

func snapshotKilled(ctx context.Context, c *course) ([]string, error) {
	if err := c.load(ctx, makeEvents(c.Events)); err != nil {
		return nil, err
	}
	process, _, err := c.begin(0)
	if err != nil {
		return nil, err
	}
	if err := c.await(ctx, c.Events/2); err != nil {
		return nil, err
	}
	process.Kill()
	if _, _, err := c.begin(0); err != nil {
		return nil, err
	}
	if err := c.await(ctx, c.Events); err != nil {
		return nil, err
	}
	return c.delivered(ctx, c.Events)
}

// delivered returns how the arrivals differ from n stored events, once repeats have settled.
func (c *course) delivered(ctx context.Context, n int) ([]string, error) {
	if err := c.settle(ctx); err != nil {
		return nil, err
	}
	arrivals, err := c.sink.arrivals()
	if err != nil {
		return nil, err
	}
	d := judge(arrivals, n)
	return []string{fmt.Sprintf("%s / %s / %s", number(float64(d.lost)), number(float64(d.repeated)), number(float64(d.disordered)))}, nil
}

func live(ctx context.Context, c *course) ([]string, error) {
	if err := c.goLive(ctx, 1); err != nil {
		return nil, err
	}
	before, err := c.usage()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	stored, err := c.feed(ctx, c.For, nil)
	if err != nil {
		return nil, err
	}
	after, err := c.usage()
	if err != nil {
		return nil, err
	}
	took := time.Since(begun)
	if err := c.await(ctx, warm+len(stored)); err != nil {
		return nil, err
	}
	arrivals, err := c.sink.arrivals()
	if err != nil {
		return nil, err
	}
	var latencies []time.Duration
	for k, at := range firsts(arrivals) {
		if since, ok := stored[k]; ok {
			latencies = append(latencies, at.Sub(since))
		}
	}
	slices.Sort(latencies)
	return []string{
		fmt.Sprintf("%s / %s", percentile(latencies, 0.5), percentile(latencies, 0.99)),
		fmt.Sprintf("%.1f; %s", 100*(after.cpu-before.cpu).Seconds()/took.Seconds(), mebibytes(after.peak)),
	}, nil
}

func liveKilled(ctx context.Context, c *course) ([]string, error) {
	if err := c.goLive(ctx, 1); err != nil {
		return nil, err
	}
	// A publisher that has led for less than a minute waits for its lease when it restarts. With
	// the default of FOR, this one has led for 75 s.
	var restarted time.Time
	stored, err := c.feed(ctx, c.For*3/2, func() (err error) {
		c.running[0].Kill()
		_, restarted, err = c.begin(0)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := c.await(ctx, warm+len(stored)); err != nil {
		return nil, err
	}
	arrivals, err := c.sink.arrivals()
	if err != nil {
		return nil, err
	}
	next := time.Duration(math.MaxInt64)
	for _, at := range firsts(arrivals) {
		if at.After(restarted) {
			next = min(next, at.Sub(restarted))
		}
	}
	cells, err := c.delivered(ctx, warm+len(stored))
	return append(cells, fmt.Sprintf("%.2f", next.Seconds())), err
}

func two(ctx context.Context, c *course) ([]string, error) {
	if err := c.goLive(ctx, 2); err != nil {
		return nil, err
	}
	stored, err := c.feed(ctx, c.For, nil)
	if err != nil {
		return nil, err
	}
	if err := c.await(ctx, warm+len(stored)); err != nil {
		return nil, err
	}
	return c.delivered(ctx, warm+len(stored))
}

// warm is how many events go through the program before the measurement.
const warm = 100

// goLive starts that many instances, and waits until events that are stored meanwhile
// arrive.
func (c *course) goLive(ctx context.Context, instances int) error {
	for i := range instances {
		if _, _, err := c.begin(i); err != nil {
			return err
		}
	}
	events := makeEvents(warm)
	for i := range events {
		events[i].AggregateID = "warm-" + events[i].AggregateID
	}
	if err := c.load(ctx, events); err != nil {
		return err
	}
	return c.await(ctx, warm)
}

// feed stores events at the rate, for that time, and returns when each was stored. It calls
// kill, if that is not nil, after five sixths of the time.
func (c *course) feed(ctx context.Context, total time.Duration, kill func() error) (map[key]time.Time, error) {
	events := makeEvents(int(float64(c.Rate) * total.Seconds()))
	stored := make(map[key]time.Time, len(events))
	tick := time.NewTicker(poll)
	defer tick.Stop()
	begun := time.Now()
	for done := 0; done < len(events); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if kill != nil && time.Since(begun) > total*5/6 {
			if err := kill(); err != nil {
				return nil, err
			}
			kill = nil
		}
		due := min(len(events), int(float64(c.Rate)*time.Since(begun).Seconds()))
		if due == done {
			continue
		}
		now := time.Now()
		for _, ev := range events[done:due] {
			stored[key{ev.AggregateID, ev.EventID}] = now
		}
		if err := c.load(ctx, events[done:due]); err != nil {
			return nil, err
		}
		done = due
	}
	return stored, nil
}

// percentile returns the value in ms that this share of the sorted latencies does not
// exceed.
func percentile(sorted []time.Duration, share float64) string {
	if len(sorted) == 0 {
		return "–"
	}
	return number(float64(sorted[int(share*float64(len(sorted)-1))].Microseconds()) / 1000)
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%.0f", float64(bytes)/(1<<20)) }
