// Package applied is an example of a client that reads its own writes: it writes an
// event, waits until a read model has it, and then reads the read model. Copy it into
// your own program; it needs only the standard library.
package applied

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Event is an event of an aggregate in a read model.
type Event struct {
	Projection, AggregateID string
	EventID                 int64
}

// ErrTimeout means that the read models did not have all events in time. They will have
// them later.
var ErrTimeout = errors.New("the read models do not have the events yet")

// ErrParked means that an aggregate is parked: its read model will not have the event
// until somebody has corrected the cause.
var ErrParked = errors.New("the aggregate is parked")

// Client queries a projector. BaseURL must be set.
type Client struct {
	// BaseURL is the URL of the projectors' query API, such as
	// http://penstock-projector-query:8081.
	BaseURL string
	// HTTP is http.DefaultClient if it is nil.
	HTTP *http.Client
}

// answer is the part of the response that the client reads.
type answer struct {
	Result string `json:"result"`
	Error  string `json:"error"`
	Pairs  []struct {
		Projection  string `json:"projection"`
		AggregateID string `json:"aggregateId"`
		Watermark   int64  `json:"watermark"`
		Parked      *struct {
			EventID int64  `json:"eventId"`
			Reason  string `json:"reason"`
		} `json:"parked"`
	} `json:"pairs"`
}

// Await waits until the read models have all events, for at most timeout. The error is
// [ErrTimeout], [ErrParked], or the reason why the projector did not answer. After any
// error, the caller continues without the guarantee, or fails its own request.
func (c *Client) Await(ctx context.Context, timeout time.Duration, events ...Event) error {
	query := url.Values{"timeout": {timeout.String()}}
	for _, e := range events {
		query.Add("projection", e.Projection)
		query.Add("aggregateId", e.AggregateID)
		query.Add("eventId", strconv.FormatInt(e.EventID, 10))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.BaseURL+"/applied?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var a answer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		return fmt.Errorf("read the answer with status %s: %w", response.Status, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask %s: %s: %s", c.BaseURL, response.Status, a.Error)
	}
	switch a.Result {
	case "applied":
		return nil
	case "parked":
		for _, pair := range a.Pairs {
			if pair.Parked != nil {
				return fmt.Errorf("%w: %s in %s at event %d (%s)", ErrParked, pair.AggregateID, pair.Projection, pair.Parked.EventID, pair.Parked.Reason)
			}
		}
		return ErrParked
	}
	return ErrTimeout
}
