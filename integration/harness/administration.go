package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// administrationVersion is the API version that both Azure and the emulator know. It is the
// newest of the .NET SDK, for which the emulator's API was made.
const administrationVersion = "2021-05"

// newAdmin makes an administration client.
func newAdmin(o ExternalOptions, client *http.Client) (*admin.Client, error) {
	var transport redirect
	if o.AdminEndpoint != "" {
		endpoint, err := url.Parse(o.AdminEndpoint)
		if err != nil {
			return nil, fmt.Errorf("open the administration client: %w", err)
		}
		transport.to = endpoint
	}
	transport.client = client
	made, err := admin.NewClientFromConnectionString(o.ConnectionString, &admin.ClientOptions{
		ClientOptions: azcore.ClientOptions{APIVersion: administrationVersion, Transport: transport},
	})
	if err != nil {
		return nil, fmt.Errorf("open the administration client: %w", err)
	}
	return made, nil
}

// redirect sends requests to another server. The SDK (v1.11) sends them to HTTPS on the
// host of the connection string, with its port, where an emulator serves AMQP. Only the
// transport can change that.
type redirect struct {
	// to has the scheme and host of the target; nil changes nothing.
	to     *url.URL
	client *http.Client
}

// Do implements policy.Transporter.
func (r redirect) Do(request *http.Request) (*http.Response, error) {
	if r.to != nil {
		request = request.Clone(request.Context())
		request.URL.Scheme, request.URL.Host, request.Host = r.to.Scheme, r.to.Host, r.to.Host
	}
	return r.client.Do(request)
}

// The subscriptions of a pipeline's topic.
const (
	externalSubscription = "projector"
	// externalObserver has no sessions, and its messages are browsed and never removed.
	externalObserver = "observer"
)

// Properties of every topic. Microsoft's emulator keeps a message for an hour at most and
// delivers it ten times at most.
const (
	messageTTL         = time.Hour
	maxDeliveries      = 10
	lockDuration       = 30 * time.Second
	defaultDedupWindow = 5 * time.Minute
)

// createTopic makes a topic with the pipeline's subscription and the observer's. It is not
// partitioned, because the emulator has no partitioned entities. After an error, the caller
// must delete what was made.
func createTopic(ctx context.Context, client *admin.Client, name string, o TopicOptions) error {
	window := cmp.Or(o.DuplicateDetectionWindow, defaultDedupWindow)
	topic := admin.TopicProperties{DefaultMessageTimeToLive: iso(messageTTL), EnablePartitioning: to.Ptr(false)}
	if window > 0 {
		topic.RequiresDuplicateDetection, topic.DuplicateDetectionHistoryTimeWindow = to.Ptr(true), iso(window)
	}
	if _, err := client.CreateTopic(ctx, name, &admin.CreateTopicOptions{Properties: &topic}); err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	for _, subscription := range []string{externalSubscription, externalObserver} {
		properties := admin.SubscriptionProperties{
			LockDuration: iso(lockDuration), RequiresSession: to.Ptr(subscription == externalSubscription),
			DefaultMessageTimeToLive: iso(messageTTL), MaxDeliveryCount: to.Ptr[int32](maxDeliveries),
		}
		if _, err := client.CreateSubscription(ctx, name, subscription, &admin.CreateSubscriptionOptions{Properties: &properties}); err != nil {
			return fmt.Errorf("create subscription %s of topic %s: %w", subscription, name, err)
		}
	}
	return nil
}

// deleteTopic deletes a topic with its subscriptions. A topic that does not exist is no
// error.
func deleteTopic(ctx context.Context, client *admin.Client, name string) error {
	_, err := client.DeleteTopic(ctx, name, nil)
	if response, ok := errors.AsType[*azcore.ResponseError](err); err == nil || ok && response.StatusCode == http.StatusNotFound {
		return nil
	}
	return fmt.Errorf("delete topic %s: %w", name, err)
}

// iso formats a duration of whole seconds as ISO 8601.
func iso(d time.Duration) *string { return to.Ptr(fmt.Sprintf("PT%dS", int64(d/time.Second))) }
