package drain

import (
	"context"
	"errors"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// ErrLinkLost says that the broker does not send on this link any more: the
// session belongs to whoever accepts it next.
var ErrLinkLost = errors.New("link lost")

// How long ReceiveMessages of the SDK waits for more after the first message. In a trickle
// that is latency for nothing. In a burst, returning before all credit is used
// leaves a moment in which the SDK releases what arrives. The receiver of package sessions
// never waits.
const (
	trickleWait = time.Millisecond
	burstWait   = 20 * time.Millisecond
	// burstSize is how many messages in one return foretell a burst.
	burstSize = 8
)

// pump receives without pause and never gives more credit than the inbox has room
// for.
type pump struct {
	receiver  Receiver
	sessionID string
	reader    *event.Reader
	inbox     *inbox
	// most bounds one call.
	most int
}

// run ends with nil when ctx does, and otherwise with what ended the link. What was
// received is in the inbox in either case.
func (p *pump) run(ctx context.Context) error {
	options := azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: trickleWait}
	for ctx.Err() == nil {
		ask := p.inbox.ask(ctx, p.most)
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
			return errors.Join(ErrLinkLost, err)
		}
	}
	return nil
}

func (p *pump) decode(messages []*azservicebus.ReceivedMessage) []*Delivery {
	if len(messages) == 0 {
		return nil
	}
	batch := make([]*Delivery, len(messages))
	for i, m := range messages {
		batch[i] = decode(p.reader, p.sessionID, m)
	}
	return batch
}
