package chart_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

const (
	metricsGroup, metricsVersion = "custom.metrics.k8s.io", "v1beta2"
	// sessions is the metric by which charts/penstock/ci/hpa-sessions.yaml scales.
	sessions = "penstock_projector_sessions_active"
)

// sessionsMetric is an adapter for pod metrics, like prometheus-adapter. It divides the
// total of sessions among the ready pods.
type sessionsMetric struct {
	pods  corev1client.PodsGetter
	total atomic.Int64
}

// serveSessionsMetric adds the metric to the API, with a total of 0.
func serveSessionsMetric(ctx context.Context, control *controlplane.ControlPlane) (*sessionsMetric, error) {
	core, err := corev1client.NewForConfig(control.Admin())
	if err != nil {
		return nil, err
	}
	m := &sessionsMetric{pods: core}
	const root = "/apis/" + metricsGroup + "/" + metricsVersion
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+root, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: metricsGroup + "/" + metricsVersion,
			APIResources: []metav1.APIResource{{Name: "pods/" + sessions, Namespaced: true, Kind: "MetricValueList", Verbs: metav1.Verbs{"get"}}},
		})
	})
	mux.HandleFunc("GET "+root+"/namespaces/{namespace}/pods/{which}/"+sessions, m.list)
	return m, control.Extend(ctx, metricsGroup, metricsVersion, mux)
}

// list answers with the sessions of each pod that the request selects.
func (m *sessionsMetric) list(w http.ResponseWriter, r *http.Request) {
	pods, err := m.pods.Pods(r.PathValue("namespace")).List(r.Context(), metav1.ListOptions{LabelSelector: r.URL.Query().Get("labelSelector")})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	var names []string
	for _, pod := range pods.Items {
		if isReady(pod) {
			names = append(names, pod.Name)
		}
	}
	items := make([]map[string]any, 0, len(names))
	for _, name := range names {
		items = append(items, map[string]any{
			"describedObject": corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: r.PathValue("namespace"), Name: name},
			"metric":          map[string]any{"name": sessions},
			"timestamp":       metav1.Now(),
			"value":           fmt.Sprintf("%dm", 1000*m.total.Load()/int64(len(names))),
		})
	}
	answer(w, map[string]any{
		"kind": "MetricValueList", "apiVersion": metricsGroup + "/" + metricsVersion, "metadata": map[string]any{}, "items": items,
	})
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

func isReady(pod corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
