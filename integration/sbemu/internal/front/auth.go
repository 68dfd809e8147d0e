package front

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/access"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// grants are the rights that tokens granted to a connection, by path.
type grants struct {
	mu     sync.Mutex
	byPath map[string]grant
}

type grant struct {
	rights access.Rights
	until  time.Time // zero: forever
}

func (g *grants) add(path string, rights access.Rights, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()

	if g.byPath == nil {
		g.byPath = make(map[string]grant)
	}

	g.byPath[strings.ToLower(path)] = grant{rights: rights, until: until}
}

// allows reports whether one of the rights is granted on a path or on a parent of it.
func (g *grants) allows(path string, rights access.Rights) bool {
	g.mu.Lock()
	defer g.mu.Unlock()

	now := time.Now()
	path = strings.ToLower(path)

	for {
		if p, ok := g.byPath[path]; ok && p.rights&rights != 0 && (p.until.IsZero() || p.until.After(now)) {
			return true
		}

		if path == "" {
			return false
		}

		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
	}
}

// authorize returns why the connection does not have any of the rights on a path, or nil.
func (c *conn) authorize(path string, rights access.Rights) *wire.Error {
	if err := c.srv.Faults.refuseLink(); err != nil {
		return err
	}

	if c.grants.allows(path, rights) {
		return nil
	}

	return wire.Errorf(broker.CondUnauthorized, "%s", unclaimed(rights, path))
}

func unclaimed(rights access.Rights, path string) string {
	return fmt.Sprintf("Unauthorized access. '%s' claim(s) are required to perform this operation. Resource: 'sb://sbemu/%s'.", rights, path)
}

// expiry returns when an identity's token expires, as the client says; zero if it does not say.
func (r *request) expiry() time.Time {
	v, _ := r.application.Get("expiration")
	if ms, ok := v.(wire.Timestamp); ok {
		return time.UnixMilli(int64(ms))
	}

	text, _ := wire.Text(v)
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds > 0 {
		return time.Unix(seconds, 0) // as the Go SDK sends it
	}

	return time.Time{}
}

// cbs handles a request to $cbs: a client puts a token for an audience.
func (c *conn) cbs(req *request) {
	if op := req.text("operation"); op != "put-token" {
		c.respond(req, response{code: 400, description: "unknown operation " + strconv.Quote(op)})

		return
	}

	token, isText := wire.Text(req.body)
	audience := entityPath(req.text("name"))

	if !isText || req.text("name") == "" {
		c.respond(req, response{code: 400, description: "put-token needs a token and the name of an audience"})

		return
	}

	var (
		rights = access.All // for an identity's token, which cannot be verified here
		until  time.Time
	)

	switch typ := req.text("type"); typ {
	case "servicebus.windows.net:sastoken":
		var err error
		if rights, until, err = access.Check(c.srv.opts.Policies(), token, audience); err != nil {
			c.respond(req, failure(wire.Errorf(broker.CondUnauthorized, "%s", access.Reason(err))))

			return
		}
	case "jwt":
		until = req.expiry()
	default:
		c.respond(req, failure(wire.Errorf(broker.CondUnauthorized, "UnknownTokenType: The token type '%s' is not supported.", typ)))

		return
	}

	// A token for a missing entity is refused too (the SDK's tests show this).
	if entity, _ := cutSuffixFold(audience, managementSuffix); entity != "" && !c.srv.opts.Namespace.Exists(entity) {
		c.respond(req, failure(errNotFound(entity)))

		return
	}

	c.grants.add(audience, rights, until)
	c.respond(req, response{code: 202, description: "Accepted"})
}
