package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/preflight"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/pkg/similar"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

const (
	// brokerTimeout bounds an accept of a session, and reading the properties of the subscription.
	brokerTimeout = 10 * time.Second
	// fewDeliveries is a limit of deliveries that a few restarts of pods can exhaust.
	fewDeliveries = 10
	// noExpiry starts the largest time to live, which Service Bus uses for none.
	noExpiry = "P10675199D"
	// checkedEvents is how many of the oldest and how many of the newest events are read.
	checkedEvents = 50
)

// connect checks the prerequisites of the projector beyond its configuration, and changes
// nothing.
func (c *checkCommand) connect(ctx context.Context, e *Environment) error {
	s, err := config.OpenStores(e.Config.MongoDB, nil, e.Logger)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	var r preflight.Report
	r.OK("configuration", "right, with "+cli.Count(int64(len(e.Projections)), "projection"))
	reached := true
	for _, client := range s.Needed {
		if !r.Reach(ctx, client) {
			reached = false
			continue
		}
		if client.What == "read models" {
			r.Writable(ctx, s.ReadModels, "watermarks", "read models, rights")
			checkLayout(ctx, &r, s, e)
		}
		if client.Client == s.State.Client() {
			r.Writable(ctx, s.State, catalog.CatalogName, "state, rights")
		}
	}
	if reached {
		checkOwners(ctx, &r, s, e)
	}
	if s.Source.Client == s.ReadModels.Client() || r.Reach(ctx, s.Source) {
		checkEventStore(ctx, &r, s, e)
	}
	checkSubscription(ctx, &r, e)
	return r.Print(e.stdout, c.Flags)
}

// checkOwners checks that no other pipeline owns the names of this one, which would stop a
// start.
func checkOwners(ctx context.Context, r *preflight.Report, s *config.Stores, e *Environment) {
	const what = "owners"
	ctx, cancel := mongox.Timeout(ctx, config.AttemptTimeout)
	defer cancel()
	places, err := Owned(ctx, &e.Config, e.Projections, s)
	if err == nil {
		_, err = catalog.CheckNames(ctx, places)
	}
	err = mongox.Explain(ctx, err)
	switch {
	case err == nil:
		r.OK(what, "no other pipeline owns the projections, their collections or the subscription")
	case errors.Is(err, catalog.ErrOwned):
		r.Fail(what, "names belong to another pipeline", ExplainOwner(err).Error())
	default:
		r.Refused(what, err, "grant the user readWrite on the databases of the read models and the state")
	}
}

// checkLayout checks that the collections can hold read models.
func checkLayout(ctx context.Context, r *preflight.Report, s *config.Stores, e *Environment) {
	const what = "read models, collections"
	ctx, cancel := mongox.Timeout(ctx, config.AttemptTimeout)
	defer cancel()
	err := readmodel.CheckLayout(ctx, s.ReadModels, Collections(e.Projections))
	if err == nil {
		err = checkDocuments(ctx, s, e)
	}
	err = mongox.Explain(ctx, err)
	switch {
	case err == nil:
		r.OK(what, "can hold read models")
		checkSearchIndexes(ctx, r, s, e)
	case errors.Is(err, readmodel.ErrLayout):
		r.Fail(what, err.Error(), "use another collection for the projection")
	default:
		r.Refused(what, err, "grant the user readWrite on database "+s.ReadModels.Name())
	}
}

// checkSearchIndexes names the search indexes that the next rebuild would lose.
func checkSearchIndexes(ctx context.Context, r *preflight.Report, s *config.Stores, e *Environment) {
	const what = "read models, search indexes"
	for _, collection := range Collections(e.Projections) {
		names, err := readmodel.SearchIndexes(ctx, s.ReadModels, collection)
		switch {
		case err != nil:
			r.Unreached(what, err.Error(), "repeat the check")
		case len(names) > 0:
			r.Warn(what, fmt.Sprintf("collection %s has %s, which a rebuild does not copy to its new collection", collection, strings.Join(names, ", ")), "create them again whenever a new generation is live")
		}
	}
}

// checkDocuments checks that the collections that no projection uses yet have no documents
// of others.
func checkDocuments(ctx context.Context, s *config.Stores, e *Environment) error {
	entries, err := catalog.NewCatalog(s.State.Collection(catalog.CatalogName), e.Config.Pipeline().String()).List(ctx)
	if err != nil {
		return err
	}
	for _, d := range catalog.Declare(e.Projections...) {
		if !catalog.InUse(entries, d.Collection) {
			err = errors.Join(err, readmodel.CheckDocuments(ctx, s.ReadModels, d.Collection))
		}
	}
	return err
}

// checkEventStore checks that events can be read through the index, and that they keep the
// contract.
func checkEventStore(ctx context.Context, r *preflight.Report, s *config.Stores, e *Environment) {
	ctx, cancel := mongox.Timeout(ctx, config.AttemptTimeout)
	defer cancel()
	history := eventstore.NewReader(s.Events, e.Config.EventFields(), e.Logger)
	if !r.Index(ctx, history, s.Events.Database().Name()) {
		return
	}
	const sample = "event store, events"
	total, broken, last := 0, 0, error(nil)
	err := history.Sample(ctx, checkedEvents, func(_ *event.Event, breaks error) {
		if total++; breaks != nil {
			broken, last = broken+1, breaks
		}
	})
	detail := fmt.Sprintf("%d of a sample of %d break the contract, such as: %v", broken, total, last)
	switch {
	case err != nil:
		r.Refused(sample, mongox.Explain(ctx, err), "grant the user read on database "+s.Events.Database().Name())
	case 2*broken > total:
		r.Fail(sample, detail, "if the documents have other names of fields, set PENSTOCK_FIELD_*, as for the publisher; otherwise correct the writer")
	case broken > 0:
		r.Warn(sample, detail, "see \"publisher quarantine list\"")
	default:
		r.OK(sample, fmt.Sprintf("a sample of %d keeps the contract", total))
	}
	const what = "event store, types"
	stored, err := history.Types(ctx, newestEvents)
	var sources [][]projection.Source
	for _, p := range e.Projections {
		sources = append(sources, p.Sources())
	}
	switch types := unhandledTypes(stored, slices.Concat(sources...), e.Projections); {
	case err != nil:
		r.Refused(what, mongox.Explain(ctx, err), "grant the user read on database "+s.Events.Database().Name())
	case len(types) > 0:
		r.Warn(what, "the newest events have types that no projection handles: "+listTypes(types), "correct the name in the writer or in the projection; if no read model needs the events, declare their types in the section events")
	default:
		r.OK(what, "a projection handles the types of the newest events, or the section events declares them")
	}
	if unused := unusedTypes(stored, sources); len(unused) > 0 {
		r.Warn("projections, types", "among the newest events: "+strings.Join(unused, " "), "correct aggregateType in the projection; if events of the type will come, ignore the warning")
	}
}

// checkSubscription checks that the credentials may accept sessions of the subscription.
func checkSubscription(ctx context.Context, r *preflight.Report, e *Environment) {
	c := e.Config.ServiceBus
	namespace, err := sbus.Open(c.Config)
	if err != nil {
		r.Fail("subscription", err.Error(), "correct the settings of Service Bus")
		return
	}
	looking, cancel := context.WithTimeout(ctx, brokerTimeout)
	defer cancel()
	reportSessions(r, fmt.Sprintf("%s of topic %s at %s", c.Subscription, c.Topic, c.Host()), drain.Try(looking, Dial(c, namespace, e.Logger)))
	ctx, cancelReading := context.WithTimeout(ctx, brokerTimeout)
	defer cancelReading()
	properties, err := readSubscription(ctx, namespace, c.Topic, c.Subscription)
	reportSubscription(r, properties, err)
	if err == nil {
		rules, err := namespace.Rules(ctx, c.Topic, c.Subscription)
		reportRules(r, rules, err)
	}
}

// reportSessions adds the result of an accept to the report.
func reportSessions(r *preflight.Report, name string, err error) {
	const what = "subscription"
	switch class := sbus.Classify(err); {
	case err == nil:
		r.OK(what, "requires sessions, and the credentials can receive from "+name)
	case class == sbus.ClassFatal || class == sbus.ClassRefused:
		r.Fail(what, name+" gives no session: "+err.Error(), "check both names, that both are enabled, that the subscription requires sessions, and that the credentials may listen (Azure Service Bus Data Receiver)")
	default:
		r.Unreached(what, name+": "+err.Error(), "check the namespace's name, and that the network allows AMQP (port 5671); the service waits for it")
	}
}

// readSubscription needs the right to manage the subscription.
func readSubscription(ctx context.Context, namespace *sbus.Namespace, topic, subscription string) (admin.SubscriptionProperties, error) {
	found, err := namespace.Subscription(ctx, topic, subscription)
	switch {
	case err != nil:
		return admin.SubscriptionProperties{}, err
	case found == nil:
		return admin.SubscriptionProperties{}, fmt.Errorf("subscription %s of topic %s %w%s", subscription, topic, sbus.ErrAbsent, similar.Meant(subscription, namespace.SubscriptionNames(ctx, topic)))
	}
	return *found, nil
}

// reportSubscription adds the findings about a subscription's properties to the report.
func reportSubscription(r *preflight.Report, p admin.SubscriptionProperties, err error) {
	const what = "subscription, properties"
	switch {
	case errors.Is(err, sbus.ErrUnreadable):
		r.Warn(what, "not checked: "+err.Error(), "grant Azure Service Bus Data Owner, or the Manage claim, for this check alone, or look at the subscription with az")
		return
	case errors.Is(err, sbus.ErrAbsent):
		r.Fail(what, err.Error(), "create it, or correct AZURE_SERVICEBUS_SUBSCRIPTION_NAME")
		return
	case err != nil:
		r.Unreached(what, err.Error(), "repeat the check")
		return
	}
	fine := true
	judge := func(ok bool, add func(check, detail, remedy string), detail, remedy string) {
		if !ok {
			add(what, detail, remedy)
			fine = false
		}
	}
	status := sbus.Value(p.Status)
	judge(sbus.Value(p.RequiresSession), r.Fail, "the subscription does not require sessions", "create another subscription: the property can be set only at its creation")
	judge(status == "" || status == admin.EntityStatusActive, r.Fail, fmt.Sprintf("its status is %v", status), "set it to Active")
	judge(sbus.Value(p.ForwardTo) == "", r.Fail, "it forwards its messages, so there are none to receive", "remove ForwardTo")
	judge(p.MaxDeliveryCount == nil || *p.MaxDeliveryCount >= fewDeliveries, r.Warn, fmt.Sprintf("MaxDeliveryCount is %d", sbus.Value(p.MaxDeliveryCount)), "use 10 or more: if a pod is killed, the broker delivers its messages once more")
	if expires := p.DefaultMessageTimeToLive; expires != nil {
		judge(strings.HasPrefix(*expires, noExpiry), r.Warn, "its messages expire after "+*expires, "remove its default time to live, or keep it longer than the longest outage of the projectors: an expired event is a gap")
	}
	if fine {
		r.OK(what, "requires sessions")
	}
}

// reportRules adds the findings about a subscription's rules to the report. The subscription gets
// a message if one of its rules selects the message.
func reportRules(r *preflight.Report, rules []admin.RuleProperties, err error) {
	const what, remedy = "subscription, rules", "delete the rules, and create one with a TrueFilter: an event that the subscription does not get is a gap"
	names := make([]string, len(rules))
	for i, rule := range rules {
		names[i] = rule.Name
		if selectsAll(rule.Filter) {
			r.OK(what, "select every message")
			return
		}
	}
	switch {
	case err != nil:
		r.Unreached(what, err.Error(), "repeat the check")
	case len(rules) == 0:
		r.Fail(what, "the subscription has no rule, so it gets no message", "create a rule with a TrueFilter")
	default:
		r.Warn(what, "the subscription gets only the messages that its rules select: "+strings.Join(names, ", "), remedy)
	}
}

// selectsAll reports whether a filter is that of the default rule.
func selectsAll(filter admin.RuleFilter) bool {
	switch f := filter.(type) {
	case *admin.TrueFilter:
		return true
	case *admin.SQLFilter:
		return strings.ReplaceAll(f.Expression, " ", "") == "1=1"
	}
	return false
}
