package front

import (
	"net/url"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/access"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

const (
	cbsAddress       = "$cbs"
	managementSuffix = "/$management"

	filterSession = "com.microsoft:session-filter"
	propTimeout   = "com.microsoft:timeout"
	propLocked    = "com.microsoft:locked-until-utc"
	propBatchSize = "com.microsoft:max-message-batch-size"
)

// attach attaches a link.
func (s *session) attach(p *wire.Attach) error {
	if p.Handle > handleMax {
		return wire.Errorf(broker.CondFramingError, "handle %d is over the limit of %d", p.Handle, handleMax)
	}

	if s.links[p.Handle] != nil {
		return wire.Errorf(broker.CondHandleInUse, "handle %d is in use", p.Handle)
	}

	s.conn.linked(1) // also counts a refused link, which is detached later

	if p.Role == wire.RoleSender {
		s.attachSender(p)
	} else {
		s.attachReceiver(p)
	}

	return nil
}

// refuse answers an attach that is not accepted. The answer omits the terminus on the
// server's side: the target if the client sends, otherwise the source. A detach with the
// reason follows.
func (s *session) refuse(p *wire.Attach, reason *wire.Error) {
	reply := attachReply(p)

	if p.Role == wire.RoleSender {
		reply.Target = nil
	} else {
		reply.Source = nil
	}

	c := s.conn
	s.links[p.Handle] = &refused{}

	c.mu.Lock()
	c.flushSettled()
	c.append(s.channel, reply)
	c.append(s.channel, &wire.Detach{Handle: p.Handle, Closed: true, Error: reason})
	c.mu.Unlock()
	c.signal()
}

// attachReply returns the answer that grants an attach.
func attachReply(p *wire.Attach) *wire.Attach {
	return &wire.Attach{
		Name:          p.Name,
		Handle:        p.Handle,
		Role:          !p.Role,
		SndSettleMode: p.SndSettleMode,
		RcvSettleMode: p.RcvSettleMode,
		Source:        p.Source,
		Target:        p.Target,
	}
}

// refused stands for a refused link until the client's detach arrives.
type refused struct{}

func (*refused) flow(*wire.Flow)               {}
func (*refused) transfer(*wire.Transfer) error { return nil }
func (*refused) detached()                     {}
func (*refused) answerDetach() bool            { return false }

// attachSender attaches a link on which the client sends.
func (s *session) attachSender(p *wire.Attach) {
	switch {
	case p.Target == nil:
		s.refuse(p, wire.Errorf(broker.CondInvalidField, "the target of the link is not set"))

		return
	case p.Target.Coordinator:
		s.refuse(p, wire.Errorf(broker.CondNotImplemented, "transactions are not supported"))

		return
	}

	address := entityPath(p.Target.Address)
	l := &incoming{session: s, handle: p.Handle, maxSize: maxRequestSize, deliveryCount: p.InitialDeliveryCount}
	reply := attachReply(p)

	switch {
	case strings.EqualFold(address, cbsAddress):
		if err := s.conn.takeCBS(0, l); err != nil {
			s.refuse(p, err)

			return
		}

		l.request, l.node = (*conn).cbs, cbsAddress
	case hasSuffixFold(address, managementSuffix):
		if err := s.prepareManagement(l, address); err != nil {
			s.refuse(p, err)

			return
		}
	default:
		if err := s.prepareSend(l, address); err != nil {
			s.refuse(p, err)

			return
		}

		if size := l.destination.Config().MaxBatchSize; size > 0 {
			reply.Properties = wire.Map{{Key: wire.Symbol(propBatchSize), Value: size}}
		}
	}

	reply.MaxMessageSize = l.maxSize
	s.links[p.Handle] = l

	if l.node != cbsAddress {
		s.conn.mu.Lock()
		s.conn.senders[l] = struct{}{}
		l.usedAt = time.Now()
		s.conn.mu.Unlock()
	}

	s.conn.send(s.channel, reply)
	l.grant()
}

// prepareSend prepares a link that sends to a topic or queue.
func (s *session) prepareSend(l *incoming, address string) *wire.Error {
	c := s.conn

	if err := c.authorize(address, access.Send); err != nil {
		return err
	}

	if l.destination = c.srv.opts.Namespace.Destination(address); l.destination == nil {
		return errNotFound(address)
	}

	cfg := l.destination.Config()
	l.maxSize = max(cfg.MaxMessageSize, cfg.MaxBatchSize)

	if cfg.Disabled {
		return wire.Errorf(broker.CondEntityDisabled, "Messaging entity '%s' is currently disabled.", address)
	}

	return nil
}

// prepareManagement prepares a link that sends requests to the management node of an
// entity.
func (s *session) prepareManagement(l *incoming, address string) *wire.Error {
	entity := address[:len(address)-len(managementSuffix)]

	node, err := s.conn.managementNode(address, entity)
	if err != nil {
		return err
	}

	l.request, l.node = node.request, strings.ToLower(address)

	return nil
}

// attachReceiver attaches a link on which the client receives.
func (s *session) attachReceiver(p *wire.Attach) {
	if p.Source == nil {
		s.refuse(p, wire.Errorf(broker.CondInvalidField, "the source of the link is not set"))

		return
	}

	address := entityPath(p.Source.Address)
	l := &outgoing{session: s, attach: p, settled: p.SndSettleMode == wire.SenderSettled}

	if strings.EqualFold(address, cbsAddress) || hasSuffixFold(address, managementSuffix) {
		s.attachReplies(p, l, address)

		return
	}

	c := s.conn

	if err := c.authorize(address, access.Listen); err != nil {
		s.refuse(p, err)

		return
	}

	queue, err := c.srv.opts.Namespace.Queue(address)
	if err == nil {
		err = c.srv.Faults.refuseRequest()
	}

	if err != nil {
		s.refuse(p, err)

		return
	}

	mode := broker.PeekLock
	if l.settled {
		mode = broker.ReceiveAndDelete
	}

	id, kind, err := sessionFilter(p.Source.Filter)
	if err != nil {
		s.refuse(p, err)

		return
	}

	s.links[p.Handle] = l

	switch kind {
	case noSession:
		l.receiver, err = queue.Receive(l, mode)
		l.accept(broker.Grant{Receiver: l.receiver, Err: err}, false)
	case namedSession:
		l.accept(queue.AcceptSession(id, l, mode), true)
	case anySession:
		waiter := queue.AcceptNextSession(l, mode, acceptTimeout(p.Properties, c.srv.opts.AcceptTimeout),
			func(g broker.Grant) { l.accept(g, true) })

		c.mu.Lock()
		l.waiter = waiter
		c.mu.Unlock()
	}
}

// attachReplies attaches a link on which the client receives the replies of
// $cbs or of a management node.
func (s *session) attachReplies(p *wire.Attach, l *outgoing, address string) {
	c := s.conn

	if entity, ok := cutSuffixFold(address, managementSuffix); ok {
		if _, err := c.managementNode(address, entity); err != nil {
			s.refuse(p, err)

			return
		}
	} else if err := c.takeCBS(1, l); err != nil {
		s.refuse(p, err)

		return
	}

	l.repliesOnly = true
	c.replies.add(l, address)
	s.links[p.Handle] = l

	c.mu.Lock()
	l.attached = true
	c.flushSettled()
	c.append(s.channel, attachReply(p))
	c.mu.Unlock()
	c.signal()
}

// takeCBS takes the connection's only place for a link to $cbs in a role.
func (c *conn) takeCBS(role int, l link) *wire.Error {
	if c.cbsLinks[role] != nil {
		return wire.Errorf(broker.CondNotAllowed, "A link to connection '%d' $cbs node has already been opened.", c.id)
	}

	c.cbsLinks[role] = l

	return nil
}

// leaveCBS releases the place that takeCBS took.
func (c *conn) leaveCBS(l link) {
	for role := range c.cbsLinks {
		if c.cbsLinks[role] == l {
			c.cbsLinks[role] = nil
		}
	}
}

type filterKind int

const (
	noSession filterKind = iota
	namedSession
	anySession
)

// sessionFilter returns the session that a source's filter requests.
func sessionFilter(filter wire.Map) (string, filterKind, *wire.Error) {
	v, ok := filter.Get(filterSession)
	if !ok {
		return "", noSession, nil
	}

	if d, described := v.(wire.Described); described {
		v = d.Value
	}

	switch id, text := wire.Text(v); {
	case text:
		return id, namedSession, nil
	case v == nil:
		return "", anySession, nil
	default:
		return "", noSession, wire.Errorf(broker.CondInvalidField, "the session filter holds neither a session id nor null")
	}
}

// grantedFilter returns the filter that names the granted session. It has the same form
// as the requested filter, because the Go SDK decodes only a described value and the
// JavaScript SDK compares the answer with its plain string.
func grantedFilter(requested wire.Map, id string) wire.Map {
	var value any = id

	v, _ := requested.Get(filterSession)
	if d, described := v.(wire.Described); described {
		value = wire.Described{Descriptor: d.Descriptor, Value: id}
	}

	return wire.Map{{Key: wire.Symbol(filterSession), Value: value}}
}

// acceptTimeout returns how long the client wants to wait for a session.
func acceptTimeout(properties wire.Map, otherwise time.Duration) time.Duration {
	v, ok := properties.Get(propTimeout)
	if !ok {
		return otherwise
	}

	ms, ok := wire.Integer(v)
	if !ok || ms < 0 {
		return otherwise
	}

	return time.Duration(min(ms, int64(time.Hour/time.Millisecond))) * time.Millisecond
}

// entityPath returns the path of an address, which may be a whole URL.
func entityPath(address string) string {
	if strings.Contains(address, "://") {
		if u, err := url.Parse(address); err == nil {
			address = u.Path
		}
	}

	return strings.Trim(address, "/")
}

func hasSuffixFold(s, suffix string) bool {
	_, ok := cutSuffixFold(s, suffix)

	return ok
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}

	return s[:len(s)-len(suffix)], true
}

func errNotFound(path string) *wire.Error {
	return wire.Errorf(broker.CondNotFound, "The messaging entity '%s' could not be found. "+
		"To know more visit https://aka.ms/sbResourceMgrExceptions.", path)
}
