package drain

import (
	"context"
	"errors"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/health"
)

// errLinkLost says that the broker sends nothing more on this link: the session belongs to
// the next process that accepts it.
var errLinkLost = errors.New("link lost")

// How long ReceiveMessages of the SDK waits for more messages after the first. If messages
// are rare, waiting only adds latency. In a burst, a return before all credit is used
// leaves a moment in which the SDK releases messages. The receiver of package sessions
// never waits.
const (
	trickleWait = time.Millisecond
	burstWait   = 20 * time.Millisecond
	// burstSize is how many messages in one return predict a burst.
	burstSize = 8
)

// pump receives continuously and never gives more credit than the inbox has room for.
type pump struct {
	receiver  Receiver
	sessionID string
	reader    *event.Reader
	inbox     *inbox
	// max bounds the messages of one call.
	max int
	// waited gets the time that the first message of each reply has waited.
	waited *health.Recent
}

// run returns nil when ctx ends, and otherwise the error that ended the link. In both cases
// the inbox has all received messages.
func (p *pump) run(ctx context.Context) error {
	options := azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: trickleWait}
	for ctx.Err() == nil {
		ask := p.inbox.ask(ctx, p.max)
		if ask == 0 {
			return nil
		}
		messages, err := p.receiver.ReceiveMessages(ctx, ask, &options)
		p.inbox.put(p.decode(messages))
		options.TimeAfterFirstMessage = trickleWait
		if len(messages) >= min(burstSize, ask) {
			options.TimeAfterFirstMessage = burstWait
		}
		if ctx.Err() == nil && len(messages) == 0 {
			return errors.Join(errLinkLost, err)
		}
	}
	return nil
}

func (p *pump) decode(messages []*azservicebus.ReceivedMessage) []*Delivery {
	if len(messages) == 0 {
		return nil
	}
	if at := messages[0].EnqueuedTime; at != nil {
		p.waited.Add(time.Since(*at))
	}
	batch := make([]*Delivery, len(messages))
	for i, m := range messages {
		batch[i] = decode(p.reader, p.sessionID, m)
	}
	return batch
}
