package atom

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/access"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Options configure a [Handler].
type Options struct {
	Namespace *broker.Namespace
	Policies  func() []access.Policy

	// Premium selects the Premium tier: no partitioned entities, and messages of up to
	// 100 MB if an entity is configured so.
	Premium bool

	// DetachSenders detaches the links that send to an entity.
	DetachSenders func(entity string, reason *wire.Error)
}

// Handler serves the management API of a namespace.
type Handler struct {
	opts    Options
	created time.Time

	mu           sync.Mutex
	closed       bool
	detaches     map[*time.Timer]struct{}
	descriptions map[string]*description // by lower-case path
	rules        map[string][]*rule      // of subscriptions, by lower-case path
}

// NewHandler returns a handler.
func NewHandler(opts Options) *Handler {
	return &Handler{
		opts:         opts,
		created:      time.Now(),
		detaches:     make(map[*time.Timer]struct{}),
		descriptions: make(map[string]*description),
		rules:        make(map[string][]*rule),
	}
}

// detachDelay is the time between the answer to an update and the detach of the entity's
// links. The service has such a delay too: the SDK's tests rely on it.
const detachDelay = 500 * time.Millisecond

// detachLater detaches links after detachDelay.
func (h *Handler) detachLater(detach func()) {
	var t *time.Timer

	t = time.AfterFunc(detachDelay, func() {
		h.mu.Lock()
		delete(h.detaches, t)
		closed := h.closed
		h.mu.Unlock()

		if !closed {
			detach()
		}
	})
	h.detaches[t] = struct{}{}
}

// Close cancels all pending detaches.
func (h *Handler) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.closed = true

	for t := range h.detaches {
		t.Stop()
	}
}

// errRequest means that a request is invalid.
var errRequest = errors.New("bad request")

// problem is an answer that refuses a request.
type problem struct {
	status int
	detail string
}

func (p *problem) Error() string { return p.detail }

func refuse(status int, format string, args ...any) error {
	return &problem{status: status, detail: fmt.Sprintf(format, args...)}
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()

	status, body, err := h.serve(r)

	var p *problem

	switch {
	case errors.As(err, &p):
	case errors.Is(err, errRequest):
		p = &problem{status: http.StatusBadRequest, detail: err.Error()}
	case err != nil:
		p = &problem{status: http.StatusBadRequest, detail: "SubCode=40000. " + err.Error()}
	}

	if p != nil {
		status = p.status
		body = fmt.Sprintf("<Error><Code>%d</Code><Detail>%s To know more visit https://aka.ms/sbResourceMgrExceptions.</Detail></Error>",
			p.status, escape(p.detail))
	}

	w.Header().Set("Content-Type", "application/atom+xml;type=entry;charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// checkName refuses a new entity's or rule's name if it is too long.
func checkName(name string, longest int) error {
	if n := len(name); n > longest {
		return refuse(http.StatusBadRequest, "SubCode=40000. The name '%s' is %d characters long, which is over the limit of %d.", name, n, longest)
	}

	return nil
}

// target is the entity, rule or list that a request addresses.
type target struct {
	entity       string // topic or queue
	subscription string
	rule         string
	list         string // "Queues", "Topics", "Subscriptions" or "Rules", if a list is requested
}

func parseTarget(path string) target {
	parts := strings.Split(strings.Trim(path, "/"), "/")

	if len(parts) == 2 && strings.EqualFold(parts[0], "$Resources") {
		return target{list: parts[1]}
	}

	for i, p := range parts {
		if i == 0 || !strings.EqualFold(p, "Subscriptions") {
			continue
		}

		t := target{entity: strings.Join(parts[:i], "/")}

		switch rest := parts[i+1:]; len(rest) {
		case 0:
			t.list = "Subscriptions"
		case 1:
			t.subscription = rest[0]
		case 2:
			t.subscription, t.list = rest[0], "Rules"
		default:
			t.subscription, t.rule = rest[0], rest[2]
		}

		return t
	}

	return target{entity: strings.Join(parts, "/")}
}

func (h *Handler) serve(r *http.Request) (int, string, error) {
	t := parseTarget(r.URL.Path)
	manages := h.manages(r)

	switch {
	case t.entity == "$namespaceinfo":
		return http.StatusOK, h.namespaceInfo(r), nil
	case strings.EqualFold(t.list, "Queues"), strings.EqualFold(t.list, "Topics"):
		if !manages {
			return 0, "", unauthorizedRead()
		}

		return http.StatusOK, h.listEntities(r, strings.EqualFold(t.list, "Topics")), nil
	case t.subscription != "" || t.list != "":
		if !manages {
			return 0, "", unauthorizedSubscription(r.Method, t)
		}

		return h.serveSubscription(r, t)
	case t.entity == "":
		return 0, "", refuse(http.StatusNotFound, "No entity is named.")
	default:
		return h.serveEntity(r, t, manages)
	}
}

// manages reports whether a request may manage entities.
func (h *Handler) manages(r *http.Request) bool {
	token := r.Header.Get("Authorization")

	if !strings.HasPrefix(token, "SharedAccessSignature ") {
		return token != "" // an identity's token: it cannot be verified here
	}

	rights, _, err := access.Check(h.opts.Policies(), token, r.URL.Path)

	return err == nil && rights&access.Manage != 0
}

func unauthorizedRead() error {
	return refuse(http.StatusUnauthorized, "Manage,EntityRead claims required for this operation.")
}

func unauthorizedSubscription(method string, t target) error {
	operation := map[string]string{
		http.MethodGet: "GetSubscription", http.MethodPut: "CreateOrUpdateSubscription", http.MethodDelete: "DeleteSubscription",
	}[method]

	if t.list == "Subscriptions" {
		operation = "EnumerateSubscriptions"
	}

	return refuse(http.StatusUnauthorized, "401 SubCode=40100: Unauthorized : Unauthorized access for '%s' operation on endpoint.", operation)
}

// page returns the bounds of the requested page.
func page(r *http.Request, n int) (from, to int) {
	skip, err := strconv.Atoi(r.URL.Query().Get("$skip"))
	if err != nil || skip < 0 {
		skip = 0
	}

	top, err := strconv.Atoi(r.URL.Query().Get("$top"))
	if err != nil || top < 0 || top > 100 {
		top = 100
	}

	from = min(skip, n)

	return from, min(from+top, n)
}

// entry returns an Atom entry with the given content.
func entry(r *http.Request, path, title, content string) string {
	self := escape("https://" + r.Host + "/" + path)

	return fmt.Sprintf(`<entry xmlns="http://www.w3.org/2005/Atom"><id>%s</id><title type="text">%s</title>`+
		`<updated>%s</updated><link rel="self" href="%s"/><content type="application/xml">%s</content></entry>`,
		self, escape(title), timestamp(time.Now()), self, content)
}

func feed(r *http.Request, title string, entries []string) string {
	return fmt.Sprintf(`<feed xmlns="http://www.w3.org/2005/Atom"><title type="text">%s</title><id>%s</id>%s</feed>`,
		escape(title), escape("https://"+r.Host+r.URL.Path), strings.Join(entries, ""))
}

// nothing is the service's answer to a GET of a missing queue or topic: the list of all
// public services, which is empty.
func nothing(r *http.Request) string { return feed(r, "Publicly Listed Services", nil) }

// timestamp formats a time, and a zero time as .NET does.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return "0001-01-01T00:00:00"
	}

	return t.UTC().Format("2006-01-02T15:04:05.0000000Z")
}

func (h *Handler) namespaceInfo(r *http.Request) string {
	sku, units := "Standard", ""
	if h.opts.Premium {
		sku, units = "Premium", "<MessagingUnits>1</MessagingUnits>"
	}

	return entry(r, "$namespaceinfo", "sbemu", fmt.Sprintf(
		`<NamespaceInfo xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">`+
			`<CreatedTime>%s</CreatedTime><MessagingSKU>%s</MessagingSKU>%s<ModifiedTime>%s</ModifiedTime><Name>sbemu</Name>`+
			`<NamespaceType>Messaging</NamespaceType></NamespaceInfo>`, timestamp(h.created), sku, units, timestamp(h.created)))
}

// maxBody is the maximum size of a request body in bytes.
const maxBody = 1 << 20

func readBody(r *http.Request) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRequest, err)
	}

	return b, nil
}
