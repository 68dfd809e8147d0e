package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// ErrRefused says that the server refused a request. The error that wraps it has the
// reason.
var ErrRefused = errors.New("control request refused")

// Client controls the sbemu of a control address, with the methods of [sbemu.Server].
type Client struct {
	base string
	http *http.Client
}

// NewClient returns a client of a control address, such as "127.0.0.1:5380". If client is
// nil, it makes one.
func NewClient(address string, client *http.Client) *Client {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}

	if client == nil {
		client = &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}
	}

	return &Client{base: strings.TrimRight(address, "/"), http: client}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Totals returns the messages that a topic or queue has received.
func (c *Client) Totals(ctx context.Context, entity string) (sbemu.Totals, error) {
	return fetch[sbemu.Totals](ctx, c, "/totals", url.Values{"entity": {entity}})
}

// Accepted returns the recorded messages of a topic or queue, in order.
func (c *Client) Accepted(ctx context.Context, entity string) ([]sbemu.Accepted, error) {
	return fetch[[]sbemu.Accepted](ctx, c, "/accepted", url.Values{"entity": {entity}})
}

// Counts returns the numbers of messages of a queue by state.
func (c *Client) Counts(ctx context.Context, queue string) (sbemu.Counts, error) {
	return fetch[sbemu.Counts](ctx, c, "/counts", url.Values{"entity": {queue}})
}

// Sessions returns the sessions of a queue.
func (c *Client) Sessions(ctx context.Context, queue string) ([]sbemu.Session, error) {
	return fetch[[]sbemu.Session](ctx, c, "/sessions", url.Values{"entity": {queue}})
}

// Messages returns up to limit messages of a queue, starting at a sequence number.
func (c *Client) Messages(ctx context.Context, queue string, from int64, limit int) ([]sbemu.Message, error) {
	return fetch[[]sbemu.Message](ctx, c, "/messages", url.Values{
		"entity": {queue},
		"from":   {strconv.FormatInt(from, 10)},
		"limit":  {strconv.Itoa(limit)},
	})
}

// Connections returns the open connections.
func (c *Client) Connections(ctx context.Context) ([]sbemu.Connection, error) {
	return fetch[[]sbemu.Connection](ctx, c, "/connections", nil)
}

// SetLatency adds latency to all frames in each direction.
func (c *Client) SetLatency(ctx context.Context, toServer, toClient time.Duration) error {
	return c.order(ctx, "/faults/latency", Latency{ToServer: Duration(toServer), ToClient: Duration(toClient)}, nil)
}

// Throttle answers with server-busy for d.
func (c *Client) Throttle(ctx context.Context, d time.Duration) error {
	return c.order(ctx, "/faults/throttle", Throttle{Duration: Duration(d)}, nil)
}

// LimitCredits throttles to that many credits per second; 0 removes the limit.
func (c *Client) LimitCredits(ctx context.Context, perSecond int) error {
	return c.order(ctx, "/faults/throttle", Throttle{CreditsPerSecond: &perSecond}, nil)
}

// RefuseSends refuses the next n sends to an entity; an empty entity means any.
func (c *Client) RefuseSends(ctx context.Context, entity string, n int, condition string) error {
	return c.order(ctx, "/faults/refuse-sends", RefuseSends{Entity: entity, Count: n, Condition: condition}, nil)
}

// LoseMessages loses the messages that a topic or queue accepts from now on and whose ids
// match a regular expression.
func (c *Client) LoseMessages(ctx context.Context, entity, matches string) error {
	return c.order(ctx, "/faults/lose-messages", SelectMessages{Entity: entity, Matches: matches}, nil)
}

// ExpireMessages expires the messages that a topic or queue accepts from now on and whose
// ids match a regular expression.
func (c *Client) ExpireMessages(ctx context.Context, entity, matches string) error {
	return c.order(ctx, "/faults/expire-messages", SelectMessages{Entity: entity, Matches: matches}, nil)
}

// LoseSessionLock ends the lock of a session as if it had expired.
func (c *Client) LoseSessionLock(ctx context.Context, queue, session string) error {
	return c.order(ctx, "/faults/lose-session-lock", LoseSessionLock{Entity: queue, Session: session}, nil)
}

// DropConnections breaks connections without a closing frame, and returns their number.
func (c *Client) DropConnections(ctx context.Context, which DropConnections) (int, error) {
	var out struct {
		Dropped int `json:"dropped"`
	}

	err := c.order(ctx, "/faults/drop-connections", which, &out)

	return out.Dropped, err
}

// DetachLinks detaches all links to an entity.
func (c *Client) DetachLinks(ctx context.Context, entity, condition string) error {
	return c.order(ctx, "/faults/detach-links", DetachLinks{Entity: entity, Condition: condition}, nil)
}

// ClearFaults ends latency, throttling, refusals and losses.
func (c *Client) ClearFaults(ctx context.Context) error {
	return c.do(ctx, http.MethodDelete, "/faults", nil, nil)
}

func fetch[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	var out T

	err := c.do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &out)

	return out, err
}

func (c *Client) order(ctx context.Context, path string, body, out any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}

	return c.do(ctx, http.MethodPost, path, b, out)
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make control request: %w", err)
	}

	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("send control request: %w", err)
	}

	defer func() { _ = res.Body.Close() }()

	if res.StatusCode != http.StatusOK {
		var failure struct {
			Error string `json:"error"`
		}

		if err := json.NewDecoder(res.Body).Decode(&failure); err != nil || failure.Error == "" {
			failure.Error = res.Status
		}

		return fmt.Errorf("%s %s: %w: %s", method, path, ErrRefused, failure.Error)
	}

	if out == nil {
		return nil
	}

	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return fmt.Errorf("decode answer of %s: %w", path, err)
	}

	return nil
}
