package backlog_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/projector/internal/backlog"
)

// pageSize is the page size of Service Bus.
const pageSize = 100

// broker is a fake subscription whose sessions have messages.
type broker struct {
	mu       sync.Mutex
	sessions int
	// fails returns the error of a request on the n-th connection; nil for none.
	fails func(connection int) error
	// hangs keeps requests from being answered.
	hangs bool
	// counts are the start times of counts. pages is the number of pages read since.
	counts         []time.Time
	pages          int
	dialed, closed int
}

var errDial = errors.New("no such host")

func (b *broker) dial() (backlog.Connection, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dialed++
	return &connection{broker: b, number: b.dialed}, nil
}

// set changes the broker.
func (b *broker) set(change func(*broker)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

// begun returns the start times of the counts since its last call.
func (b *broker) begun() []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := b.counts
	b.counts = nil
	return counts
}

type connection struct {
	*broker
	number int
}

func (c *connection) Sessions() backlog.Pages {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts = append(c.counts, time.Now())
	c.pages = 0
	return &pages{connection: c}
}

func (c *connection) Close(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed++
	return nil
}

// pages ends like the SDK's pager: after a page that is not full.
type pages struct {
	*connection
	listed int
	done   bool
}

func (p *pages) More() bool { return !p.done }

func (p *pages) NextPage(ctx context.Context) (azservicebus.ListSessionsResponse, error) {
	if err := p.request(ctx); err != nil {
		p.done = true
		return azservicebus.ListSessionsResponse{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages++
	n := min(pageSize, p.sessions-p.listed)
	p.listed += n
	p.done = n < pageSize
	return azservicebus.ListSessionsResponse{Sessions: make([]string, n)}, nil
}

func (p *pages) request(ctx context.Context) error {
	p.mu.Lock()
	hangs, fails := p.hangs, p.fails
	p.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if fails != nil {
		return fails(p.number)
	}
	return ctx.Err()
}
