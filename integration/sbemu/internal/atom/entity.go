package atom

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// serveEntity serves a queue or topic.
func (h *Handler) serveEntity(r *http.Request, t target, manages bool) (int, string, error) {
	d := h.opts.Namespace.Destination(t.entity)

	switch r.Method {
	case http.MethodGet:
		switch {
		case d == nil:
			return http.StatusOK, nothing(r), nil
		case !manages:
			return 0, "", unauthorizedRead()
		default:
			return http.StatusOK, h.entityEntry(r, d), nil
		}
	case http.MethodPut:
		if !manages {
			return 0, "", refuse(http.StatusUnauthorized, "Authorization failed for specified action: Manage,EntityWrite.")
		}

		return h.putEntity(r, t, d)
	case http.MethodDelete:
		if !manages {
			return 0, "", refuse(http.StatusUnauthorized, "Authorization failed for specified action: Manage,EntityDelete.")
		}

		return h.deleteEntity(t, d)
	default:
		return 0, "", refuse(http.StatusMethodNotAllowed, "The method %s is not allowed.", r.Method)
	}
}

func (h *Handler) deleteEntity(t target, d *broker.Destination) (int, string, error) {
	if d == nil {
		return 0, "", refuse(http.StatusNotFound, "404 Not Found. The messaging entity '%s' could not be found.", t.entity)
	}

	h.opts.Namespace.Delete(t.entity)
	h.opts.DetachSenders(t.entity, wire.Errorf(broker.CondNotFound, "The messaging entity '%s' could not be found.", t.entity))

	prefix := key(t.entity)

	for path := range h.descriptions {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			delete(h.descriptions, path)
			delete(h.rules, path)
		}
	}

	return http.StatusOK, "", nil
}

func key(path string) string { return strings.ToLower(path) }

// putEntity creates or updates a queue or topic.
func (h *Handler) putEntity(r *http.Request, t target, d *broker.Destination) (int, string, error) {
	body, err := readBody(r)
	if err != nil {
		return 0, "", err
	}

	k := queueKind
	if bytes.Contains(body, []byte("<"+topicKind.element)) {
		k = topicKind
	}

	e, err := content(body, k.element)
	if err != nil {
		return 0, "", err
	}

	if r.Header.Get("If-Match") != "" {
		return h.updateEntity(r, t, d, e)
	}

	if d != nil {
		return 0, "", refuse(http.StatusConflict, "SubCode=40900. Conflict. The entity '%s' exists already.", t.entity)
	}

	if err := checkName(t.entity, broker.MaxEntityName); err != nil {
		return 0, "", err
	}

	desc := newDescription(k, time.Now())
	desc.values["MaxMessageSizeInKilobytes"] = h.defaultMessageSize()
	desc.read(e)

	if desc.bool("EnablePartitioning") {
		// A partitioned entity has 16 times the requested size.
		if size, err := desc.int("MaxSizeInMegabytes"); err == nil {
			desc.values["MaxSizeInMegabytes"] = strconv.FormatInt(16*size, 10)
		}
	}

	in, q, err := h.configs(desc)
	if err != nil {
		return 0, "", err
	}

	if k == topicKind {
		err = h.opts.Namespace.CreateTopic(broker.TopicConfig{Name: t.entity, IntakeConfig: in})
	} else {
		err = h.opts.Namespace.CreateQueue(broker.StandaloneConfig{Name: t.entity, IntakeConfig: in, QueueConfig: q})
	}

	if err != nil {
		return 0, "", err
	}

	h.descriptions[key(t.entity)] = desc

	return http.StatusCreated, h.entityEntry(r, h.opts.Namespace.Destination(t.entity)), nil
}

func (h *Handler) defaultMessageSize() string {
	if h.opts.Premium {
		return "1024"
	}

	return "256"
}

func (h *Handler) updateEntity(r *http.Request, t target, d *broker.Destination, e *element) (int, string, error) {
	if d == nil {
		return 0, "", refuse(http.StatusNotFound, "404 Not Found. The messaging entity '%s' could not be found.", t.entity)
	}

	desc := h.describe(d).clone()
	if change := desc.changed(e); change != "" {
		return 0, "", refuse(http.StatusBadRequest, "SubCode=40000. %s", change)
	}

	desc.read(e)
	desc.updatedAt = time.Now()

	in, q, err := h.configs(desc)
	if err != nil {
		return 0, "", err
	}

	d.Update(in, q)
	h.descriptions[key(d.Path())] = desc

	h.detachLater(func() {
		reason := broker.Updated(t.entity)
		h.opts.DetachSenders(t.entity, reason)

		if d.Direct() != nil {
			d.Direct().Detach(reason)
		}
	})

	return http.StatusOK, h.entityEntry(r, d), nil
}

// configs converts a description to the broker's configuration.
func (h *Handler) configs(d *description) (broker.IntakeConfig, broker.QueueConfig, error) {
	var (
		in   broker.IntakeConfig
		q    broker.QueueConfig
		errs []error
	)

	duration := func(name string) time.Duration {
		v, err := d.duration(name)
		errs = append(errs, err)

		return v
	}

	in.DefaultTTL = duration("DefaultMessageTimeToLive")
	q.DefaultTTL = in.DefaultTTL

	if d.bool("RequiresDuplicateDetection") {
		in.DuplicateDetectionWindow = duration("DuplicateDetectionHistoryTimeWindow")

		if w := in.DuplicateDetectionWindow; w < broker.MinDedupWindow || w > broker.MaxDedupWindow {
			errs = append(errs, fmt.Errorf("%w: duplicates are detected over 20 seconds to 7 days", errRequest))
		}
	}

	in.Partitioned = d.bool("EnablePartitioning")
	status := d.values["Status"]
	in.Disabled = status == "Disabled" || status == "SendDisabled"
	q.Disabled = status == "Disabled" || status == "ReceiveDisabled"

	if d.kind != subscriptionKind {
		size, err := d.int("MaxMessageSizeInKilobytes")
		errs = append(errs, err)
		in.MaxMessageSize = uint64(size) << 10

		if size < 0 {
			errs = append(errs, fmt.Errorf("%w: a size is not negative", errRequest))
		}

		if h.opts.Premium {
			in.MaxBatchSize = 1 << 20
		}

		if in.Partitioned && h.opts.Premium {
			errs = append(errs, fmt.Errorf("%w: the entities of this namespace cannot be partitioned", errRequest))
		}
	}

	if d.kind != topicKind {
		q.LockDuration = duration("LockDuration")
		count, err := d.int("MaxDeliveryCount")
		errs = append(errs, err)
		q.MaxDeliveryCount = uint32(count)
		q.RequiresSession = d.bool("RequiresSession")
		q.DeadLetterExpired = d.bool("DeadLetteringOnMessageExpiration")
		q.ForwardTo = entityName(d.values["ForwardTo"])
		q.ForwardDeadLettersTo = entityName(d.values["ForwardDeadLetteredMessagesTo"])

		if count < 1 || count > broker.MaxMaxDeliveryCount {
			errs = append(errs, fmt.Errorf("%w: a message is delivered 1 to %d times", errRequest, broker.MaxMaxDeliveryCount))
		}

		if q.LockDuration < 5*time.Second || q.LockDuration > broker.MaxLockDuration {
			errs = append(errs, fmt.Errorf("%w: a lock lasts 5 seconds to 5 minutes", errRequest))
		}
	}

	for _, err := range errs {
		if err != nil {
			return in, q, err
		}
	}

	return in, q, nil
}

// entityName returns the entity that a URL or a name refers to.
func entityName(s string) string {
	if _, rest, found := strings.Cut(s, "://"); found {
		_, s, _ = strings.Cut(rest, "/")
	}

	return strings.Trim(s, "/")
}

// describe returns the description of an entity. If the entity was not created through
// this API, describe derives the description from its configuration.
func (h *Handler) describe(d *broker.Destination) *description {
	if desc := h.descriptions[key(d.Path())]; desc != nil {
		return desc
	}

	k := queueKind
	if d.IsTopic() {
		k = topicKind
	}

	cfg := d.Config()
	desc := newDescription(k, h.created)
	desc.values["DefaultMessageTimeToLive"] = formatDuration(cfg.DefaultTTL)
	desc.values["EnablePartitioning"] = strconv.FormatBool(cfg.Partitioned)
	desc.values["MaxMessageSizeInKilobytes"] = strconv.FormatUint(cfg.MaxMessageSize>>10, 10)

	if cfg.DuplicateDetectionWindow > 0 {
		desc.values["RequiresDuplicateDetection"] = "true"
		desc.values["DuplicateDetectionHistoryTimeWindow"] = formatDuration(cfg.DuplicateDetectionWindow)
	}

	if cfg.Disabled {
		desc.values["Status"] = "SendDisabled"
	}

	if q := d.Direct(); q != nil {
		describeQueue(desc, q.Config())
	}

	h.descriptions[key(d.Path())] = desc

	return desc
}

// describeQueue copies a queue's delivery settings into a description.
func describeQueue(desc *description, cfg broker.QueueConfig) {
	desc.values["LockDuration"] = formatDuration(cfg.LockDuration)
	desc.values["RequiresSession"] = strconv.FormatBool(cfg.RequiresSession)
	desc.values["DeadLetteringOnMessageExpiration"] = strconv.FormatBool(cfg.DeadLetterExpired)
	desc.values["MaxDeliveryCount"] = strconv.FormatUint(uint64(cfg.MaxDeliveryCount), 10)

	for name, target := range map[string]string{
		"ForwardTo": cfg.ForwardTo, "ForwardDeadLetteredMessagesTo": cfg.ForwardDeadLettersTo,
	} {
		if target != "" {
			desc.values[name] = escape(target)
		}
	}

	if cfg.Disabled {
		desc.values["Status"] = "ReceiveDisabled"
	}
}

// entityEntry returns the entry of a queue or topic.
func (h *Handler) entityEntry(r *http.Request, d *broker.Destination) string {
	desc := h.describe(d)

	readings := map[string]string{
		"CreatedAt":   timestamp(desc.createdAt),
		"UpdatedAt":   timestamp(desc.updatedAt),
		"AccessedAt":  timestamp(d.UsedAt()),
		"SizeInBytes": strconv.FormatInt(d.Size(), 10),
	}

	if q := d.Direct(); q != nil {
		c := q.Counts()
		readings["CountDetails"] = countDetails(c)
		readings["MessageCount"] = strconv.Itoa(c.Active + c.Deferred + c.Scheduled + c.DeadLettered)
	} else {
		sql, correlation := h.filterCounts(d)
		readings["SqlFilterCount"] = strconv.Itoa(sql)
		readings["CorrelationFilterCount"] = strconv.Itoa(correlation)
		readings["SubscriptionCount"] = strconv.Itoa(len(d.Subscriptions()))
		readings["CountDetails"] = countDetails(broker.Counts{Scheduled: d.Pending()})
	}

	var b strings.Builder

	desc.write(&b, readings)

	return entry(r, d.Path(), d.Path(), b.String())
}

func countDetails(c broker.Counts) string {
	return fmt.Sprintf("<d2p1:ActiveMessageCount>%d</d2p1:ActiveMessageCount><d2p1:DeadLetterMessageCount>%d</d2p1:DeadLetterMessageCount>"+
		"<d2p1:ScheduledMessageCount>%d</d2p1:ScheduledMessageCount><d2p1:TransferMessageCount>0</d2p1:TransferMessageCount>"+
		"<d2p1:TransferDeadLetterMessageCount>%d</d2p1:TransferDeadLetterMessageCount>", c.Active, c.DeadLettered, c.Scheduled, c.TransferDeadLettered)
}

func (h *Handler) listEntities(r *http.Request, topics bool) string {
	var all []*broker.Destination

	for _, d := range h.opts.Namespace.Destinations() {
		if d.IsTopic() == topics {
			all = append(all, d)
		}
	}

	from, to := page(r, len(all))

	var entries []string
	for _, d := range all[from:to] {
		entries = append(entries, h.entityEntry(r, d))
	}

	return feed(r, "Entities", entries)
}
