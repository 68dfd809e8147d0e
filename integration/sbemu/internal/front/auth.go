package front

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Rights are what a policy allows, as a set of bits.
type Rights uint8

// The rights.
const (
	Listen Rights = 1 << iota
	Send
	Manage

	AllRights = Listen | Send | Manage
)

func (r Rights) String() string {
	switch r {
	case Listen:
		return "Listen"
	case Send:
		return "Send"
	case Manage:
		return "Manage"
	default:
		return "Listen, Send or Manage"
	}
}

// Policy is a shared access key with its rights.
type Policy struct {
	Name   string
	Key    string
	Rights Rights
}

// grants are the rights that tokens gave a connection, by path. Only the
// goroutine that handles frames uses them.
type grants struct {
	byPath map[string]grant
}

type grant struct {
	rights Rights
	until  time.Time // zero: forever
}

func (g *grants) add(path string, rights Rights, until time.Time) {
	if g.byPath == nil {
		g.byPath = make(map[string]grant)
	}

	g.byPath[strings.ToLower(path)] = grant{rights: rights, until: until}
}

// allows reports whether a path, or one above it, has one of the rights.
func (g *grants) allows(path string, rights Rights) bool {
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

// authorize says why the connection may not do something on a path.
func (c *conn) authorize(path string, rights Rights) *wire.Error {
	if c.grants.allows(path, rights) {
		return nil
	}

	return wire.Errorf(broker.CondUnauthorized,
		"Unauthorized access. '%s' claim(s) are required to perform this operation. Resource: 'sb://sbemu/%s'.", rights, path)
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
		g   grant
		err *wire.Error
	)

	switch typ := req.text("type"); typ {
	case "servicebus.windows.net:sastoken":
		g, err = c.srv.sas(token, audience)
	case "jwt":
		// Nobody can check an identity here, so all tokens do.
		g = grant{rights: AllRights}
	default:
		err = wire.Errorf(broker.CondUnauthorized, "UnknownTokenType: The token type '%s' is not supported.", typ)
	}

	if err != nil {
		c.respond(req, failure(err))

		return
	}

	c.grants.add(audience, g.rights, g.until)
	c.respond(req, response{code: 202, description: "Accepted"})
}

// sas checks a shared access signature for an audience.
func (s *Server) sas(token, audience string) (grant, *wire.Error) {
	fields, found := strings.CutPrefix(token, "SharedAccessSignature ")
	parts := make(map[string]string)

	for field := range strings.SplitSeq(fields, "&") {
		key, value, _ := strings.Cut(field, "=")
		parts[key] = value
	}

	seconds, numErr := strconv.ParseInt(parts["se"], 10, 64)
	resource, urlErr := url.QueryUnescape(parts["sr"])
	signature, sigErr := url.QueryUnescape(parts["sig"])

	if !found || numErr != nil || urlErr != nil || sigErr != nil || parts["skn"] == "" {
		return grant{}, wire.Errorf(broker.CondUnauthorized, "MalformedToken: The token is malformed.")
	}

	until := time.Unix(seconds, 0)
	if !until.After(time.Now()) {
		return grant{}, wire.Errorf(broker.CondUnauthorized, "ExpiredToken: The token is expired. Expiration time: '%s'.",
			until.UTC().Format(time.RFC3339))
	}

	for _, p := range s.opts.Policies {
		if p.Name != parts["skn"] {
			continue
		}

		mac := hmac.New(sha256.New, []byte(p.Key))
		mac.Write([]byte(parts["sr"] + "\n" + parts["se"]))

		if !hmac.Equal([]byte(base64.StdEncoding.EncodeToString(mac.Sum(nil))), []byte(signature)) {
			break
		}

		if !covers(resource, audience) {
			return grant{}, wire.Errorf(broker.CondUnauthorized, "InvalidAudience: The token does not cover the resource '%s'.", audience)
		}

		return grant{rights: p.Rights, until: until}, nil
	}

	return grant{}, wire.Errorf(broker.CondUnauthorized, "InvalidSignature: The token has an invalid signature.")
}

// covers reports whether a token's resource, which may be a whole namespace
// with or without a scheme, is the audience or above it.
func covers(resource, audience string) bool {
	path := ""

	if _, rest, found := strings.Cut(resource, "://"); found {
		resource = rest
	}

	if _, rest, found := strings.Cut(resource, "/"); found {
		path = strings.Trim(rest, "/")
	}

	audience = strings.ToLower(audience)

	return path == "" || audience == path || strings.HasPrefix(audience, path+"/")
}
