package backlog_test

import (
	"cmp"
	"context"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
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

// Sessions ends like the SDK's pager: after a page that is not full.
func (c *connection) Sessions() *runtime.Pager[azservicebus.ListSessionsResponse] {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pages = 0
	listed := 0
	return runtime.NewPager(runtime.PagingHandler[azservicebus.ListSessionsResponse]{
		More: func(page azservicebus.ListSessionsResponse) bool { return len(page.Sessions) == pageSize },
		Fetcher: func(ctx context.Context, _ *azservicebus.ListSessionsResponse) (page azservicebus.ListSessionsResponse, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if err := cmp.Or(c.err, ctx.Err()); err != nil {
				return page, err
			}
			c.pages++
			page.Sessions = make([]string, min(pageSize, c.sessions-listed))
			listed += len(page.Sessions)
			return page, nil
		},
	})
}

func (c *connection) Close(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed++
	return nil
}
