package sessions

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/penstock-cdc/penstock/pkg/backoff"
)

const (
	// claimTimeout bounds one attempt to put the claims of a connection, with the
	// identity provider's part in it.
	claimTimeout = 30 * time.Second
	// Claims are renewed when half of their time is left. minRenewal keeps a credential
	// that hands out the same token until its end from being asked without pause, and
	// maxRenewal a token of a year from being held that long.
	minRenewal = 15 * time.Second
	maxRenewal = 12 * time.Hour
)

// claim puts a token for the subscription and one for its management node. It returns
// when the first of them expires; zero if none does.
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
	// The tokens come first: no link to $cbs is open while the identity provider thinks.
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
	// The broker allows one pair of links to $cbs on a connection, and detaches them if
	// they are idle. So they live for this call only.
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

// keepClaims renews the claims until ctx ends. A renewal that fails is retried: the old
// claims hold until they expire. After that the broker detaches the links, and refuses
// to accept, which ends the connection.
func (l *line) keepClaims(ctx context.Context, expires time.Time) {
	retry := backoff.Backoff{First: time.Second, Most: 30 * time.Second}
	for !expires.IsZero() {
		if backoff.Wait(ctx, untilRenewal(time.Until(expires))) != nil {
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
			if backoff.Wait(ctx, wait) != nil {
				return
			}
		}
	}
}

// untilRenewal is when to renew claims that have left to live.
func untilRenewal(left time.Duration) time.Duration {
	return min(max(left/2, minRenewal), maxRenewal)
}
