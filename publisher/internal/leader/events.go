package leader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/reference"
)

// component is the name of this program in Kubernetes Events.
const component = "penstock-publisher"

// Events records on the Lease who won and who lost a term, as Kubernetes Events. It sends them
// in the background, so an election waits for none. An event that cannot be sent is logged
// and dropped.
type Events struct {
	client corev1client.EventInterface
	config KubernetesConfig
	logger zerolog.Logger
	// sending ends when abandon is called.
	sending context.Context //nolint:containedctx // the end of a span of time
	abandon context.CancelCauseFunc
	group   sync.WaitGroup
}

// errClosing ends the sending of events that do not fit into the time of a stop.
var errClosing = errors.New("recorder of events is closing")

var _ resourcelock.EventRecorder = (*Events)(nil)

// NewKubernetesEvents makes a recorder for [KubernetesConfig.EventRecorder] without a
// request. It needs the verb create on events. The caller closes it.
func NewKubernetesEvents(config KubernetesConfig, logger zerolog.Logger) (*Events, error) {
	client, namespace, err := clientConfig(config)
	if err != nil {
		return nil, err
	}
	events, err := corev1client.NewForConfig(rest.AddUserAgent(client, component+"-events"))
	if err != nil {
		return nil, fmt.Errorf("make a client for events: %w", err)
	}
	e := &Events{client: events.Events(namespace), config: config, logger: logger.With().Str("component", "leader").Logger()}
	e.sending, e.abandon = context.WithCancelCause(context.Background())
	return e, nil
}

// Eventf implements [resourcelock.EventRecorder]. It must not be called after Close.
func (e *Events) Eventf(object runtime.Object, eventType, reason, message string, args ...any) {
	about, err := reference.GetReference(scheme.Scheme, object)
	if err != nil {
		e.logger.Debug().Err(err).Msg("Kubernetes event not made")
		return
	}
	now := metav1.Now()
	host, _, _ := strings.Cut(e.config.Identity, "_")
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("%s.%x", about.Name, now.UnixNano()),
			Namespace: about.Namespace,
		},
		InvolvedObject:      *about,
		Type:                eventType,
		Reason:              reason,
		Message:             fmt.Sprintf(message, args...),
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
		Source:              corev1.EventSource{Component: component},
		ReportingController: component,
		ReportingInstance:   host,
	}
	e.group.Go(func() {
		ctx, cancel := context.WithTimeout(e.sending, e.config.RequestTimeout)
		defer cancel()
		if _, err := e.client.Create(ctx, event, metav1.CreateOptions{}); err != nil {
			e.logger.Warn().Err(err).Str("event", event.Message).Msg("Kubernetes event not recorded")
		}
	})
}

// Close waits for the events that are being sent, until ctx ends. No event is sent after it
// has returned.
func (e *Events) Close(ctx context.Context) {
	defer e.abandon(errClosing)
	defer context.AfterFunc(ctx, func() { e.abandon(errClosing) })()
	e.group.Wait()
}
