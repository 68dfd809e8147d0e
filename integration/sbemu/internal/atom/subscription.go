package atom

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
)

func subscriptionPath(topic, name string) string { return topic + "/Subscriptions/" + name }

// serveSubscription serves subscriptions and their rules.
func (h *Handler) serveSubscription(r *http.Request, t target) (int, string, error) {
	topic := h.opts.Namespace.Destination(t.entity)
	if topic == nil || !topic.IsTopic() {
		return 0, "", refuse(http.StatusNotFound, "404 Not Found. The topic '%s' could not be found.", t.entity)
	}

	if t.list == "Subscriptions" {
		return http.StatusOK, h.listSubscriptions(r, topic), nil
	}

	sub := topic.Subscription(t.subscription)
	creates := r.Method == http.MethodPut && t.rule == "" && t.list == "" && r.Header.Get("If-Match") == ""

	switch {
	case sub == nil && !creates:
		return 0, "", refuse(http.StatusNotFound, "404 Not Found. The messaging entity '%s' could not be found.", subscriptionPath(t.entity, t.subscription))
	case t.rule != "" || t.list != "":
		return h.serveRule(r, topic, sub, t)
	}

	switch r.Method {
	case http.MethodGet:
		return http.StatusOK, h.subscriptionEntry(r, topic, sub), nil
	case http.MethodPut:
		return h.putSubscription(r, topic, sub, t)
	case http.MethodDelete:
		topic.Unsubscribe(t.subscription)
		delete(h.descriptions, key(sub.Path()))
		delete(h.rules, key(sub.Path()))

		return http.StatusOK, "", nil
	default:
		return 0, "", refuse(http.StatusMethodNotAllowed, "The method %s is not allowed.", r.Method)
	}
}

func (h *Handler) putSubscription(r *http.Request, topic *broker.Destination, sub *broker.Subscription, t target) (int, string, error) {
	body, err := readBody(r)
	if err != nil {
		return 0, "", err
	}

	e, err := content(body, subscriptionKind.element)
	if err != nil {
		return 0, "", err
	}

	if r.Header.Get("If-Match") != "" {
		return h.updateSubscription(r, topic, sub, e)
	}

	if sub != nil {
		return 0, "", refuse(http.StatusConflict, "SubCode=40900. Conflict. The subscription '%s' exists already.", t.subscription)
	}

	if err := checkName(t.subscription, broker.MaxSubscriptionName); err != nil {
		return 0, "", err
	}

	desc := newDescription(subscriptionKind, time.Now())
	desc.read(e)

	_, q, err := h.configs(desc)
	if err != nil {
		return 0, "", err
	}

	first := defaultRule()

	if d := e.child("DefaultRuleDescription"); d != nil {
		if first, err = readRule(d, ""); err != nil {
			return 0, "", err
		}
	}

	compiled, err := compile([]*rule{first})
	if err != nil {
		return 0, "", err
	}

	if err := topic.Subscribe(broker.SubscriptionConfig{Name: t.subscription, QueueConfig: q, Rules: compiled}); err != nil {
		return 0, "", err
	}

	path := key(subscriptionPath(topic.Path(), t.subscription))
	h.descriptions[path] = desc
	h.rules[path] = []*rule{first}

	return http.StatusCreated, h.subscriptionEntry(r, topic, topic.Subscription(t.subscription)), nil
}

func (h *Handler) updateSubscription(r *http.Request, topic *broker.Destination, sub *broker.Subscription, e *element) (int, string, error) {
	desc := h.describeSubscription(sub).clone()
	if change := desc.changed(e); change != "" {
		return 0, "", refuse(http.StatusBadRequest, "SubCode=40000. %s", change)
	}

	desc.read(e)
	desc.updatedAt = time.Now()

	_, q, err := h.configs(desc)
	if err != nil {
		return 0, "", err
	}

	topic.UpdateSubscription(sub.Name(), q)
	h.descriptions[key(sub.Path())] = desc

	h.detachLater(func() { sub.Detach(broker.Updated(sub.Path())) })

	return http.StatusOK, h.subscriptionEntry(r, topic, sub), nil
}

func (h *Handler) describeSubscription(sub *broker.Subscription) *description {
	if desc := h.descriptions[key(sub.Path())]; desc != nil {
		return desc
	}

	cfg := sub.Config()
	desc := newDescription(subscriptionKind, h.created)
	desc.values["DefaultMessageTimeToLive"] = formatDuration(cfg.DefaultTTL)
	describeQueue(desc, cfg)
	h.descriptions[key(sub.Path())] = desc

	return desc
}

func (h *Handler) subscriptionEntry(r *http.Request, topic *broker.Destination, sub *broker.Subscription) string {
	desc := h.describeSubscription(sub)
	c := sub.Counts()
	used := topic.UsedAt()

	if used.Before(desc.createdAt) {
		used = desc.createdAt
	}

	var b strings.Builder

	desc.write(&b, map[string]string{
		"CreatedAt":    timestamp(desc.createdAt),
		"UpdatedAt":    timestamp(desc.updatedAt),
		"AccessedAt":   timestamp(used),
		"MessageCount": strconv.Itoa(c.Active + c.Deferred + c.DeadLettered),
		"CountDetails": countDetails(c),
	})

	return entry(r, sub.Path(), sub.Name(), b.String())
}

func (h *Handler) listSubscriptions(r *http.Request, topic *broker.Destination) string {
	subs := topic.Subscriptions()
	from, to := page(r, len(subs))

	var entries []string
	for _, s := range subs[from:to] {
		entries = append(entries, h.subscriptionEntry(r, topic, s))
	}

	return feed(r, "Subscriptions", entries)
}
