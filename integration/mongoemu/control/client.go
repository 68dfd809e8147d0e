package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// ErrRefused says that the server refused a request. The error that wraps it has the
// reason.
var ErrRefused = errors.New("order refused")

// orderTimeout bounds one request.
const orderTimeout = 30 * time.Second

// Client injects faults with the methods of [mongoemu.Server].
type Client struct {
	base string
	http *http.Client
}

// NewClient makes a client of a control address, host:port or a URL.
func NewClient(address string) *Client {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return &Client{
		base: strings.TrimRight(address, "/"),
		http: &http.Client{Transport: &http.Transport{}, Timeout: orderTimeout},
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status describes the server.
func (c *Client) Status(ctx context.Context) (mongoemu.Status, error) {
	var s mongoemu.Status
	return s, c.do(ctx, http.MethodGet, "/status", nil, &s)
}

// FailCommands makes commands fail.
func (c *Client) FailCommands(ctx context.Context, f mongoemu.CommandFault) error {
	return c.order(ctx, "/faults/command", struct {
		mongoemu.CommandFault
		Block string `json:"block,omitempty"`
	}{f, f.Block.String()})
}

// ClearFaults ends all faults and the latency.
func (c *Client) ClearFaults(ctx context.Context) error {
	return c.do(ctx, http.MethodDelete, "/faults", nil, nil)
}

// SetLatency delays every command by d; 0 ends the delay.
func (c *Client) SetLatency(ctx context.Context, d time.Duration) error {
	return c.order(ctx, "/latency", map[string]string{"latency": d.String()})
}

// DropConnections closes all connections, or those with one of the given application names,
// and returns their number.
func (c *Client) DropConnections(ctx context.Context, appNames ...string) (int, error) {
	return c.count(ctx, "/connections/drop", map[string][]string{"appNames": appNames})
}

// InterruptStreams fails every open change stream's getMore with a code, and returns the
// number of streams. The code 0 means one after which a driver resumes.
func (c *Client) InterruptStreams(ctx context.Context, code int32) (int, error) {
	return c.count(ctx, "/streams/interrupt", map[string]int32{"code": code})
}

// KillCursors removes all cursors and returns their number.
func (c *Client) KillCursors(ctx context.Context) (int, error) {
	return c.count(ctx, "/cursors/kill", struct{}{})
}

// TruncateOplog removes all entries of the oplog except the newest keep.
func (c *Client) TruncateOplog(ctx context.Context, keep int) error {
	return c.order(ctx, "/oplog/truncate", map[string]int{"keep": keep})
}

// WriteNoop appends an entry without a change.
func (c *Client) WriteNoop(ctx context.Context) error {
	return c.order(ctx, "/oplog/noop", struct{}{})
}

// ExpireDocuments makes a pass over the TTL indexes now.
func (c *Client) ExpireDocuments(ctx context.Context) error {
	return c.order(ctx, "/ttl/expire", struct{}{})
}

func (c *Client) order(ctx context.Context, path string, in any) error {
	return c.do(ctx, http.MethodPost, path, in, nil)
}

func (c *Client) count(ctx context.Context, path string, in any) (int, error) {
	var out struct {
		Count int `json:"count"`
	}
	err := c.do(ctx, http.MethodPost, path, in, &out)
	return out.Count, err
}

func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return fmt.Errorf("write the order %s: %w", path, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, &body)
	if err != nil {
		return fmt.Errorf("make the order %s: %w", path, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("send the order: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		var reason struct {
			Error string `json:"error"`
		}
		if err := json.NewDecoder(resp.Body).Decode(&reason); err != nil || reason.Error == "" {
			reason.Error = resp.Status
		}
		return fmt.Errorf("%w: %s: %s", ErrRefused, path, reason.Error)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read the answer to %s: %w", path, err)
	}
	return nil
}
