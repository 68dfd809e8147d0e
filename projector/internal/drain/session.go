package drain

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// ending is the reason why a session ended.
type ending string

const (
	endIdle   ending = "idle"
	endTenure ending = "tenure"
	// endUnsettled: some settlements failed, and the release returns those messages.
	endUnsettled ending = "unsettled"
	endLost      ending = "lost"
	endStopped   ending = "stopped"
)

// session drains one accepted session.
type session struct {
	options   *Options
	handler   Handler
	accepted  Accepted
	accepts   *acceptLimiter
	heartbeat Heartbeat
	metrics   *metrics
	workers   *poll.Pool
	log       zerolog.Logger

	inbox   *inbox
	queue   *queue
	settler *settler
	reading *reading
	// suspects are messages that are not events, while this process has not read any event.
	suspects []*Delivery
	// running is the call of the handler that has not returned; nil if there is none. It is
	// sent to returned.
	running  *call
	returned chan *call
	trouble  trouble
	times
	// madeRoom says that the session has ended to free its slot for another session.
	madeRoom bool
}

// times are the times of a session.
type times struct {
	started time.Time
	// active is when a message last arrived or was handled. ended is when the session was
	// told to end.
	active, ended time.Time
	// idle is how long the session may be idle.
	idle time.Duration
	// timer wakes process. It is reused, because process waits after each event.
	timer *time.Timer
}

// endGrace is how long the calls of a session may continue after its tenure. The broker
// delivers the events that they do not finish again.
const endGrace = 2 * time.Second

// firstMessage is the timeout for a session's first message, which is in flight when the
// session is accepted.
const firstMessage = time.Second

// run drains until the session ends for a reason of its own, until stop ends, or until hard
// ends. After stop it finishes what it has received; after hard it finishes nothing.
// closing runs the closing of the receiver, which may outlast run.
func (s *session) run(stop, hard context.Context, closing func(func())) ending {
	work, lose := context.WithCancelCause(hard)
	defer lose(nil)
	receive, stopReceiving := context.WithCancel(work)
	defer stopReceiving()
	defer context.AfterFunc(stop, stopReceiving)()

	s.started = time.Now()
	s.active = s.started
	s.idle = max(s.options.SessionIdle, firstMessage)
	k := newKeeper(s.accepted.LockedUntil, s.started, func(ctx context.Context) error {
		return s.accepted.RenewSessionLock(ctx, nil)
	}, s.log)
	kept := make(chan struct{})
	s.workers.Do(func() { defer close(kept); k.run(work, lose) })

	pumped := make(chan struct{})
	s.workers.Do(func() {
		defer close(pumped)
		p := pump{receiver: s.accepted, sessionID: s.accepted.SessionID, reader: s.options.Reader, inbox: s.inbox, max: s.options.BatchSize, waited: s.metrics.waited}
		if err := p.run(receive); err != nil {
			lose(fmt.Errorf("%w: %w", ErrLockLost, err))
		}
	})

	s.settler = newSettler(s.accepted, s.workers, lose, s.metrics, s.log)
	end := s.process(work, stop, stopReceiving, pumped)
	stopReceiving()
	s.settler.wait()
	switch {
	case hard.Err() != nil:
		end = endStopped
	case work.Err() != nil:
		end = endLost
		s.log.Info().Err(context.Cause(work)).Msg("session lost")
	}
	lose(nil)
	s.close(pumped, kept, closing)
	return end
}

// close releases the session at the broker, once nothing else uses the receiver. The SDK's
// Close and ReceiveMessages can outlast their contexts while the SDK releases a message.
func (s *session) close(pumped, kept <-chan struct{}, closing func(func())) {
	closed := make(chan struct{})
	closing(func() {
		defer close(closed)
		<-pumped
		<-kept
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := s.accepted.Close(ctx); err != nil {
			s.log.Debug().Err(err).Msg("session not closed cleanly")
		}
	})
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
		s.log.Warn().Msg("session not closed in time; continuing without waiting for it")
	}
}

// process handles the deliveries from the inbox until the session must end and everything
// that can be finished is. Events that wait for a store stay with the broker.
func (s *session) process(work, stop context.Context, stopReceiving func(), pumped <-chan struct{}) ending {
	defer s.endCall()
	s.timer = time.NewTimer(s.idle)
	defer s.timer.Stop()
	var end ending
	for work.Err() == nil {
		now := time.Now()
		// Read once for each turn: if the pump ends later in this turn, await must see that.
		received := isClosed(pumped)
		s.admit(work, now)
		if work.Err() != nil {
			break
		}
		if end == "" {
			if end = s.over(stop, now); end != "" {
				s.ended = now
				stopReceiving()
			}
		}
		s.startCall(work, now)
		if end != "" && s.finished(received, now) {
			return end
		}
		if s.running != nil && end != "" && end != endStopped && now.Sub(s.ended) >= endGrace {
			s.running.cancel()
		}
		s.await(work, stop, pumped, received, now)
	}
	return endLost
}

// endCall waits until the running call has returned. Its events stay with the broker.
func (s *session) endCall() {
	if s.running != nil {
		s.running.cancel()
		<-s.returned
	}
	if s.trouble.waits() {
		s.metrics.waiting.Add(-1)
	}
}

// admit moves deliveries from the inbox into the queue, as far as there is room.
func (s *session) admit(work context.Context, now time.Time) {
	for _, d := range s.inbox.take(s.room()) {
		if s.active.Equal(s.started) {
			// The message took a round trip to arrive, and so will the next one after a
			// pause for credit.
			s.idle = max(s.options.SessionIdle, 3*now.Sub(s.started))
		}
		s.active = now
		if d.invalid == nil {
			s.queue.add(d)
			s.reading.succeeded()
			continue
		}
		s.reading.failed(d.invalid)
		s.suspects = append(s.suspects, d)
	}
	if len(s.suspects) > 0 && s.reading.read.Load() {
		for _, d := range s.suspects {
			if s.deadLetter(work, d); work.Err() != nil {
				return // the message was misread, or the session is lost
			}
		}
		s.suspects = nil
	}
}

// room is how much more can be taken from the inbox.
func (s *session) room() load {
	room := load{4 * s.options.BatchSize, s.options.share()}
	room.sub(s.queue.held)
	for _, d := range s.suspects {
		room.sub(weigh(d))
	}
	return room
}

// deadLetter dead-letters a message that is not an event.
func (s *session) deadLetter(work context.Context, d *Delivery) {
	if s.options.Misread(work, d.invalid) {
		s.settler.lost(d.invalid)
		return
	}
	if work.Err() != nil {
		return
	}
	s.metrics.invalid.Inc()
	s.reading.repeats.Warn(&s.log).Err(d.invalid).Str("messageId", d.MessageID).Msg("message is not an event; dead-lettered")
	s.settler.settle(work, d)
}

// over returns the reason why the session must end; empty if it need not.
func (s *session) over(stop context.Context, now time.Time) ending {
	// A session that is full of suspects has nothing to do either.
	quiet := s.queue.held.count == 0 && (s.inbox.len() == 0 || s.room().none())
	idle, least := now.Sub(s.active), s.idle
	if len(s.suspects) > 0 {
		// The broker delivers them again at once, so sessions with suspects take turns.
		least = max(least, suspectIdle)
	}
	switch {
	case stop.Err() != nil:
		return endStopped
	case quiet && s.settler.left.Load():
		return endUnsettled
	case !quiet || idle < least:
		if now.Sub(s.started) >= s.options.SessionTenure {
			return endTenure
		}
		return ""
	case idle >= s.options.SessionHold, s.makesRoom(now):
		return endIdle
	}
	return ""
}

// makesRoom reports whether the session must end for others.
func (s *session) makesRoom(now time.Time) bool {
	s.madeRoom = s.accepts.makeRoom(now)
	return s.madeRoom
}

// finished reports whether a session that ends has nothing left to do. received says that the
// pump has ended. A pump that hangs in the SDK is not waited for: the broker delivers what it
// still receives again. A session that waits for a store leaves its events to the broker.
func (s *session) finished(received bool, now time.Time) bool {
	switch {
	case s.running != nil:
		return false
	case s.trouble.waits():
		return true
	}
	return (received || now.Sub(s.ended) >= closeTimeout) && (s.inbox.len() == 0 || s.room().none()) && len(s.queue.order) == 0
}

// maxIdleCheck bounds the time between two checks whether an idle session must make room.
const maxIdleCheck = 200 * time.Millisecond

const (
	// suspectPause is the time between two looks whether this process has read an event.
	suspectPause = 200 * time.Millisecond
	// suspectIdle is how long a session with suspects is at least kept without a message.
	suspectIdle = time.Second
)

// await waits until process has something to do. received says that process knows already
// that pumped is closed.
func (s *session) await(work, stop context.Context, pumped <-chan struct{}, received bool, now time.Time) {
	idle := now.Sub(s.active)
	wait := max(s.idle-idle, min(idle/2, maxIdleCheck))
	if s.trouble.waits() {
		wait = min(wait, max(s.trouble.due.Sub(now), 0))
	}
	if len(s.suspects) > 0 {
		wait = min(wait, suspectPause)
	}
	if s.running == nil {
		s.heartbeat.Beat()
	} else {
		// The call's end wakes the session.
		wait = max(wait, maxIdleCheck)
	}
	stopping := stop.Done()
	switch {
	case s.ended.IsZero():
		pumped = nil
	case received:
		pumped, stopping = nil, nil
	default:
		stopping = nil
	}
	s.timer.Reset(wait)
	select {
	case <-s.inbox.filled:
	case c := <-s.returned:
		s.finish(work, c)
	case <-s.timer.C:
	case <-pumped:
	case <-stopping:
	case <-work.Done():
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
