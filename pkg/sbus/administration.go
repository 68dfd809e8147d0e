package sbus

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// errNoAdministration reports that the namespace is Microsoft's emulator, or a stand-in
// for it, which has no administration API over TLS.
var errNoAdministration = errors.New("the emulator has no administration API over TLS")

// ErrUnreadable says that the administration API does not show the value to these credentials,
// or that the namespace has no such API. Reading it needs the Manage claim, or the role Azure
// Service Bus Data Owner. The error that stands behind it says why.
var ErrUnreadable = errors.New("it cannot be read")

// ErrAbsent says that the namespace has no entity with the name.
var ErrAbsent = errors.New("does not exist")

// pages reads all pages of a list.
func pages[P any](ctx context.Context, pager *runtime.Pager[P], add func(P)) error {
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		add(page)
	}
	return nil
}

// administer calls do with a client of the administration API. An error names the answer without
// its body, which has many lines, and is [ErrUnreadable] if the credentials lack a right, and for the
// emulator.
func (n *Namespace) administer(do func(*admin.Client) error) (err error) {
	if n.Plain() {
		return fmt.Errorf("%w: %w", ErrUnreadable, errNoAdministration)
	}
	var client *admin.Client
	if connectionString, _ := n.signer.get(); connectionString != "" {
		client, err = admin.NewClientFromConnectionString(connectionString, nil)
	} else {
		client, err = admin.NewClient(n.config.host(), n.credential, nil)
	}
	if err != nil {
		return fmt.Errorf("open administration client of %s: %w", n.config.Host(), err)
	}
	return explainAnswer(do(client))
}

func explainAnswer(err error) error {
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok {
		return err
	}
	short := fmt.Errorf("the namespace answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	if answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden {
		return fmt.Errorf("%w: the credentials do not allow it: %w", ErrUnreadable, short)
	}
	return short
}

// Value returns a property; the zero value if the administration API does not return it.
func Value[T any](property *T) (value T) {
	if property != nil {
		value = *property
	}
	return value
}

// Topic reads the properties of a topic.
func (n *Namespace) Topic(ctx context.Context, name string) (found admin.TopicProperties, err error) {
	err = n.administer(func(client *admin.Client) error {
		answer, err := client.GetTopic(ctx, name, nil)
		if err != nil {
			return err
		}
		if answer == nil {
			return fmt.Errorf("read properties of topic %s: it %w", name, ErrAbsent)
		}
		found = answer.TopicProperties
		return nil
	})
	return found, err
}

// TopicSize reads the size of a topic's messages, in bytes.
func (n *Namespace) TopicSize(ctx context.Context, name string) (size int64, err error) {
	err = n.administer(func(client *admin.Client) error {
		answer, err := client.GetTopicRuntimeProperties(ctx, name, nil)
		if err != nil {
			return err
		}
		if answer == nil {
			return fmt.Errorf("read the size of topic %s: it %w", name, ErrAbsent)
		}
		size = answer.SizeInBytes
		return nil
	})
	return size, err
}

// Subscriptions lists the subscriptions of a topic. With an error it returns those that could
// be read.
func (n *Namespace) Subscriptions(ctx context.Context, topic string) (found []admin.SubscriptionPropertiesItem, err error) {
	err = n.administer(func(client *admin.Client) error {
		return pages(ctx, client.NewListSubscriptionsPager(topic, nil), func(page admin.ListSubscriptionsResponse) { found = append(found, page.Subscriptions...) })
	})
	return found, err
}

// SubscriptionNames lists the names of a topic's subscriptions, as far as they can be read.
func (n *Namespace) SubscriptionNames(ctx context.Context, topic string) []string {
	found, _ := n.Subscriptions(ctx, topic) // the names only improve an error
	names := make([]string, len(found))
	for i, s := range found {
		names[i] = s.SubscriptionName
	}
	return names
}

// SubscriptionCounts reads the numbers of messages in the subscriptions of a topic.
func (n *Namespace) SubscriptionCounts(ctx context.Context, topic string) (found []admin.SubscriptionRuntimePropertiesItem, err error) {
	err = n.administer(func(client *admin.Client) error {
		return pages(ctx, client.NewListSubscriptionsRuntimePropertiesPager(topic, nil), func(page admin.ListSubscriptionsRuntimePropertiesResponse) {
			found = append(found, page.SubscriptionRuntimeProperties...)
		})
	})
	return found, err
}

// Subscription reads the properties of a subscription; nil if it does not exist.
func (n *Namespace) Subscription(ctx context.Context, topic, name string) (found *admin.SubscriptionProperties, err error) {
	err = n.administer(func(client *admin.Client) error {
		answer, err := client.GetSubscription(ctx, topic, name, nil)
		if answer != nil {
			found = &answer.SubscriptionProperties
		}
		return err
	})
	return found, err
}

// Rules lists the rules of a subscription.
func (n *Namespace) Rules(ctx context.Context, topic, subscription string) (found []admin.RuleProperties, err error) {
	err = n.administer(func(client *admin.Client) error {
		return pages(ctx, client.NewListRulesPager(topic, subscription, nil), func(page admin.ListRulesResponse) { found = append(found, page.Rules...) })
	})
	return found, err
}
