package front

import (
	"slices"
	"strings"
)

// replies holds the links on which a connection answers requests. SDKs name such a
// link in three ways. The Go SDK gives the address of the link's target as reply-to.
// The JavaScript SDK gives the name of a link whose target has no address. Python's
// uamqp gives no reply-to: the answer goes to the only link that receives from the
// request's node on the same session. Only the goroutine that handles frames uses
// replies.
type replies struct {
	named map[string]*outgoing
	nodes map[replyNode][]*outgoing
}

// replyNode is a node as seen from a session.
type replyNode struct {
	session *session
	address string // in lower case
}

func newReplies() *replies {
	return &replies{named: make(map[string]*outgoing), nodes: make(map[replyNode][]*outgoing)}
}

// add adds a link that receives from the node at an address.
func (r *replies) add(l *outgoing, address string) {
	l.replyTo = l.attach.Name
	if t := l.attach.Target; t != nil && t.Address != "" {
		l.replyTo = t.Address
	}

	l.node = replyNode{session: l.session, address: strings.ToLower(address)}
	r.named[l.replyTo] = l
	r.nodes[l.node] = append(r.nodes[l.node], l)
}

// remove forgets a link.
func (r *replies) remove(l *outgoing) {
	if r.named[l.replyTo] == l {
		delete(r.named, l.replyTo)
	}

	left := slices.DeleteFunc(r.nodes[l.node], func(other *outgoing) bool { return other == l })
	if len(left) == 0 {
		delete(r.nodes, l.node)
	} else {
		r.nodes[l.node] = left
	}
}

// find returns the link on which a request is answered. It is nil if the request
// names no link and its session has none, or several, for the request's node.
func (r *replies) find(req *request) *outgoing {
	if req.replyTo != "" {
		return r.named[req.replyTo]
	}

	if links := r.nodes[req.node]; len(links) == 1 {
		return links[0]
	}

	return nil
}
