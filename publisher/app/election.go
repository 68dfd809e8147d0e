package app

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/leader"
)

const (
	// settleTimeout bounds the end of a term beside its drain: closing the stream and the
	// connections, and the last save.
	settleTimeout = 10 * time.Second
	// electionSilence is how many retry periods may pass without a request to the lock
	// store. After failed work, the election backs off for up to 30 of them.
	electionSilence = 60
)

// leaderConfig returns the durations of the terms.
func leaderConfig(c config.Config) leader.Config {
	return leader.NewConfig(c.Election.LeaseDuration, c.Election.RenewDeadline, c.Election.RetryPeriod,
		c.Process.DrainTimeout+settleTimeout)
}

// newElector makes the elector that the configuration asks for.
func (p *Publisher) newElector(leases *mongo.Database, h *health.Health) (*leader.Elector, error) {
	timing, election := leaderConfig(p.config), p.config.Election
	identity := cmp.Or(election.Identity, leader.NewIdentity(election.Host()))
	loop := h.Loop("election", electionSilence*election.RetryPeriod+timing.LeaseDuration)
	options := leader.Options{
		Logger: p.logger, Registerer: p.registry, Heartbeat: loop.Beat,
		NewLeader: p.terms.newLeader, TermEnded: p.terms.termEnded,
	}
	if election.Kind == config.ElectionMongoDB {
		lock := leader.NewMongoLock(leader.Leases(leases), p.config.LeaseName(), identity)
		return leader.New(lock, timing, options), nil
	}
	lock, err := leader.NewKubernetesLock(kubernetesLease(p.config, identity, timing))
	if err != nil {
		return nil, outsideKubernetes("take part in the election", err)
	}
	return leader.New(lock, timing, options), nil
}

// kubernetesLease returns the settings of the Kubernetes Lease.
func kubernetesLease(c config.Config, identity string, timing leader.Config) leader.KubernetesConfig {
	return leader.KubernetesConfig{
		Name:           c.LeaseName(),
		Namespace:      c.Election.Namespace,
		Identity:       identity,
		Kubeconfig:     c.Election.Kubeconfig,
		Dial:           c.Election.Dial,
		RequestTimeout: timing.RequestTimeout,
	}
}

// outsideKubernetes adds the remedy to an error of the connection to Kubernetes.
func outsideKubernetes(what string, err error) error {
	return fmt.Errorf("%s: %w; outside Kubernetes use PENSTOCK_ELECTION=mongodb", what, err)
}

// readHolder reads who leads.
func readHolder(ctx context.Context, c config.Config, state *mongo.Database) (leader.Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	const identity = "command"
	if c.Election.Kind == config.ElectionMongoDB {
		return leader.ReadHolder(ctx, leader.NewMongoLock(leader.Leases(state), c.LeaseName(), identity))
	}
	lock, err := leader.NewKubernetesLock(kubernetesLease(c, identity, leaderConfig(c)))
	if err != nil {
		return leader.Holder{}, outsideKubernetes("read who leads", err)
	}
	return leader.ReadHolder(ctx, lock)
}
