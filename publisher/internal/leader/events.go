package leader

import (
	"context"
	"errors"
	"fmt"
	"strings"

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

// pendingEvents is how many events may wait to be sent; further events are dropped.
const pendingEvents = 16

// component is the name of this program in Kubernetes Events.
const component = "penstock-publisher"

// Events records on the Lease who won and who lost a term, as Kubernetes Events. It sends
// them one by one in the background, so an election waits for none. An event that cannot be
// sent is logged and dropped.
type Events struct {
	client corev1client.EventInterface
	config KubernetesConfig
	logger zerolog.Logger
	queue  chan *corev1.Event
	// abandon ends the sending; done is closed when it has ended.
	abandon context.CancelCauseFunc
	done    chan struct{}
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
	sending, abandon := context.WithCancelCause(context.Background())
	e := &Events{
		client: events.Events(namespace), config: config,
		logger: logger.With().Str("component", "leader").Logger(),
		queue:  make(chan *corev1.Event, pendingEvents), abandon: abandon, done: make(chan struct{}),
	}
	go e.send(sending)
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
	select {
	case e.queue <- event:
	default:
		e.logger.Debug().Str("event", event.Message).Msg("Kubernetes event dropped, because the queue is full")
	}
}

// Close sends the events that wait, until ctx ends. No event is sent after it has returned.
func (e *Events) Close(ctx context.Context) {
	close(e.queue)
	defer context.AfterFunc(ctx, func() { e.abandon(errClosing) })()
	<-e.done
	e.abandon(errClosing)
}

func (e *Events) send(sending context.Context) {
	defer close(e.done)
	for event := range e.queue {
		ctx, cancel := context.WithTimeout(sending, e.config.RequestTimeout)
		if _, err := e.client.Create(ctx, event, metav1.CreateOptions{}); err != nil {
			e.logger.Warn().Err(err).Str("event", event.Message).Msg("Kubernetes event not recorded")
		}
		cancel()
	}
}
