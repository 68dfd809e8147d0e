package backlog_test

import (
	"cmp"
	"context"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/projector/internal/backlog"
)

// pageSize is the page size of Service Bus.
const pageSize = 100

// broker is a fake subscription whose sessions have messages.
type broker struct {
	mu       sync.Mutex
	sessions int
	// err is the error of a request; nil for none.
	err error
	// pages is the number of pages read since a count began.
	pages          int
	dialed, closed int
}

func (b *broker) dial() (backlog.Connection, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dialed++
	return &connection{b}, nil
}

// set changes the broker.
func (b *broker) set(change func(*broker)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

type connection struct{ *broker }

func (c *connection) Sessions() backlog.Pages {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmp.Or(p.err, ctx.Err()); err != nil {
		p.done = true
		return azservicebus.ListSessionsResponse{}, err
	}
	p.pages++
	n := min(pageSize, p.sessions-p.listed)
	p.listed += n
	p.done = n < pageSize
	return azservicebus.ListSessionsResponse{Sessions: make([]string, n)}, nil
}
