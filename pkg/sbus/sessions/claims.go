package sessions

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

const (
	// claimTimeout bounds one attempt to put the claims of a connection, including the
	// request to the identity provider.
	claimTimeout = 30 * time.Second
	// Claims are renewed when half of their remaining time has passed. minRenewal prevents
	// requests without a pause if a credential returns the same token until it expires.
	// maxRenewal bounds the time for tokens with very long lifetimes.
	minRenewal = 15 * time.Second
	maxRenewal = 12 * time.Hour
)

// claim puts a token for the subscription and one for its management node. It gives the
// time when the first of them expires; zero if none expires.
func (l *line) claim(ctx context.Context) (time.Time, error) {
	type put struct {
		audience, value, kind, expiration string
	}
	scheme := "amqps://"
	if l.namespace.Plain() {
		scheme = "amqp://"
	}
	var puts []put
	var first time.Time
	// Get the tokens first, so that no link to $cbs is open while the identity provider
	// answers.
	for _, path := range []string{l.path, l.path + managementSuffix} {
		audience := scheme + l.namespace.Host() + "/" + path
		token, err := l.namespace.Token(ctx, audience)
		if err != nil {
			return time.Time{}, err
		}
		expiration := "0"
		if !token.Expires.IsZero() {
			expiration = strconv.FormatInt(token.Expires.Unix(), 10)
			if first.IsZero() || token.Expires.Before(first) {
				first = token.Expires
			}
		}
		puts = append(puts, put{audience, token.Value, token.Type, expiration})
	}
	// The broker allows one pair of links to $cbs per connection and detaches idle links,
	// so the links are open only during this call.
	cbs, err := l.openRequests(ctx, "$cbs")
	if err != nil {
		return time.Time{}, fmt.Errorf("open the link for claims: %w", err)
	}
	for _, p := range puts {
		_, err = cbs.do(ctx, &amqp.Message{
			Value: p.value,
			ApplicationProperties: map[string]any{
				"operation": "put-token", "type": p.kind, "name": p.audience, "expiration": p.expiration,
			},
		})
		if err != nil {
			err = fmt.Errorf("put the claim to %s: %w", p.audience, err)
			break
		}
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if closed := cbs.close(end); err == nil && closed != nil {
		err = fmt.Errorf("close the link for claims: %w", closed)
	}
	return first, err
}

// keepClaims renews the claims until ctx ends. It retries a renewal that fails: the old
// claims are valid until they expire. After that the broker detaches the links and refuses
// to accept, which ends the connection.
func (l *line) keepClaims(ctx context.Context, expires time.Time) {
	retry := poll.Backoff{First: time.Second, Max: 30 * time.Second}
	for !expires.IsZero() {
		if poll.Wait(ctx, untilRenewal(time.Until(expires))) != nil {
			return
		}
		for {
			attempt, cancel := context.WithTimeout(ctx, claimTimeout)
			next, err := l.claim(attempt)
			cancel()
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				expires = next
				retry.Reset()
				break
			}
			wait := retry.Next()
			l.log.Warn().Err(err).Dur("retryIn", wait).Time("expires", expires).Msg("claim to the subscription not renewed; retrying")
			if poll.Wait(ctx, wait) != nil {
				return
			}
		}
	}
}

// untilRenewal is the time to the next renewal of claims that expire in left.
func untilRenewal(left time.Duration) time.Duration {
	return min(max(left/2, minRenewal), maxRenewal)
}
