package sbus

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
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

// maxSubscriptions is the largest number of subscriptions that a topic can have.
const maxSubscriptions = 2000

// maxRules bounds the rules that are read of a subscription. A topic can have some thousands.
const maxRules = 1000

// NewAdministration makes a client of the namespace's administration API without a network
// request. For the emulator it fails, because the emulator has no such API over TLS.
func (n *Namespace) NewAdministration() (*admin.Client, error) {
	if n.config.ConnectionString == "" {
		client, err := admin.NewClient(n.config.host(), n.credential, nil)
		if err != nil {
			return nil, fmt.Errorf("open administration client of %s: %w", n.config.host(), err)
		}
		return client, nil
	}
	if n.Plain() {
		return nil, errNoAdministration
	}
	connectionString, _ := n.signer.get()
	client, err := admin.NewClientFromConnectionString(connectionString, nil)
	if err != nil {
		return nil, fmt.Errorf("open administration client of %s: %w", Redact(connectionString), err)
	}
	return client, nil
}

// administer calls do with the administration API. An error names the answer without its body,
// which has many lines, and is [ErrUnreadable] if the credentials lack a right.
func (n *Namespace) administer(do func(*admin.Client) error) error {
	client, err := n.NewAdministration()
	if errors.Is(err, errNoAdministration) {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if err != nil {
		return err
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
		for pages := client.NewListSubscriptionsPager(topic, nil); pages.More() && len(found) < maxSubscriptions; {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			found = append(found, page.Subscriptions...)
		}
		return nil
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
		for pages := client.NewListSubscriptionsRuntimePropertiesPager(topic, nil); pages.More() && len(found) < maxSubscriptions; {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			found = append(found, page.SubscriptionRuntimeProperties...)
		}
		return nil
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
		for pages := client.NewListRulesPager(topic, subscription, nil); pages.More() && len(found) < maxRules; {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			found = append(found, page.Rules...)
		}
		return nil
	})
	return found, err
}
