package sessions

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/Azure/go-amqp"
)

// replyCredit is how many replies may be in flight. go-amqp renews it.
const replyCredit = 1000

// StatusError is the broker's refusal of a request to $cbs or to a management node.
type StatusError struct {
	// Code is a status as in HTTP, such as 410 for a lock that has ended.
	Code        int
	Description string
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("status %d: %s", e.Code, e.Description)
}

// RPCCode gives Code under the method name of the SDK's error, so that package sbus
// classifies both.
func (e *StatusError) RPCCode() int { return e.Code }

// requests is a pair of links to a node that answers requests. Many requests can be in
// flight.
type requests struct {
	channel  *amqp.Session
	sender   *amqp.Sender
	receiver *amqp.Receiver
	replyTo  string

	// closed ends the goroutine that receives, which then closes ended.
	closed context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	waiting map[string]chan *amqp.Message
	last    uint64
	// err is the reason why no more replies come.
	err error
}

// openRequests attaches the links to a node.
func (l *line) openRequests(ctx context.Context, node string) (*requests, error) {
	channel, err := l.conn.NewSession(ctx, nil)
	if err != nil {
		return nil, err
	}
	r := &requests{
		channel: channel, ended: make(chan struct{}), waiting: make(map[string]chan *amqp.Message),
		replyTo: strings.TrimPrefix(node, "$") + "-reply-to-" + rand.Text(),
	}
	if r.sender, err = channel.NewSender(ctx, node, nil); err == nil {
		r.receiver, err = channel.NewReceiver(ctx, node, &amqp.ReceiverOptions{
			TargetAddress:             r.replyTo,
			Credit:                    replyCredit,
			SettlementMode:            amqp.ReceiverSettleModeFirst.Ptr(),
			RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr(),
		})
	}
	if err != nil {
		l.end(channel)
		return nil, err
	}
	receive, closed := context.WithCancel(context.Background())
	r.closed = closed
	go r.run(receive)
	return r, nil
}

// run delivers replies to the waiting requests.
func (r *requests) run(ctx context.Context) {
	defer close(r.ended)
	for {
		reply, err := r.receiver.Receive(ctx, nil)
		if err != nil {
			r.fail(err)
			return
		}
		id := ""
		if reply.Properties != nil {
			id, _ = reply.Properties.CorrelationID.(string)
		}
		r.mu.Lock()
		waiting := r.waiting[id]
		delete(r.waiting, id)
		r.mu.Unlock()
		if waiting != nil {
			waiting <- reply
		}
	}
}

// fail records the reason why no more replies come. The first reason counts.
func (r *requests) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

// alive reports whether requests can be sent and replies can arrive.
func (r *requests) alive() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// do sends a request and waits for its reply. An error with a status is a
// [*StatusError].
func (r *requests) do(ctx context.Context, request *amqp.Message) (*amqp.Message, error) {
	replied := make(chan *amqp.Message, 1)
	r.mu.Lock()
	r.last++
	id := strconv.FormatUint(r.last, 10)
	r.waiting[id] = replied
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.waiting, id)
		r.mu.Unlock()
	}()
	request.Properties = &amqp.MessageProperties{MessageID: id, ReplyTo: &r.replyTo}
	if err := r.sender.Send(ctx, request, nil); err != nil {
		if detached(err) {
			// The broker can detach the sender and leave the receiver. The pair is useless then.
			// The waiting requests get this error, too, and can be repeated on another pair.
			r.fail(err)
			r.closed()
			<-r.ended
		}
		return nil, err
	}
	select {
	case reply := <-replied:
		return reply, status(reply)
	case <-r.ended:
		r.mu.Lock()
		defer r.mu.Unlock()
		return nil, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// status is the error in a reply. $cbs and management nodes name its properties
// differently.
func status(reply *amqp.Message) error {
	properties := reply.ApplicationProperties
	for _, name := range []string{"status-code", "statusCode"} {
		code, ok := properties[name].(int32)
		if !ok {
			continue
		}
		if code >= 200 && code < 300 {
			return nil
		}
		description, _ := properties["status-description"].(string)
		if description == "" {
			description, _ = properties["statusDescription"].(string)
		}
		return &StatusError{Code: int(code), Description: description}
	}
	return errors.New("the broker's reply has no status code")
}

// close ends the links.
func (r *requests) close(ctx context.Context) error {
	r.closed()
	<-r.ended
	return r.channel.Close(ctx)
}
