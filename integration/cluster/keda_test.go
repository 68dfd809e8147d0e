//go:build linux

package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-cdc/penstock/integration/node"
)

// kedaVariable names the folder of KEDA's programs and manifests.
const kedaVariable = "PENSTOCK_KEDA_TOOLS"

const kedaImage = "penstock.local/keda:v1"

// KEDA's operator, as a pod, scales the projector by both triggers of the chart: the
// messages of the subscription, which it reads from sbemu's administration API over TLS,
// and the sessions with messages, which it reads from a Prometheus. The number of pods
// rises from zero and returns to zero without a loss, even while the Prometheus fails.
func TestKEDA(t *testing.T) {
	tools := os.Getenv(kedaVariable)
	if tools == "" {
		t.Skip("no KEDA: make test-keda builds it and names its folder in " + kedaVariable)
	}
	p := newPipeline(t, "keda-shop")
	p.administerBroker()
	installKEDA(t, tools)
	r := p.release("shop",
		"projector.autoscaling.mode=keda,projector.autoscaling.minReplicas=0,projector.autoscaling.maxReplicas=4",
		"projector.autoscaling.keda.pollingInterval=2,projector.autoscaling.keda.cooldownPeriod=10",
		"projector.autoscaling.keda.messages.perReplica=100,projector.autoscaling.keda.existingSecret=keda-servicebus",
		"projector.autoscaling.keda.sessions.enabled=true,projector.autoscaling.keda.sessions.perReplica=8",
		"projector.autoscaling.behavior.scaleDown.stabilizationWindowSeconds=15",
		"projector.autoscaling.behavior.scaleDown.policies[0].type=Pods,projector.autoscaling.behavior.scaleDown.policies[0].value=2,projector.autoscaling.behavior.scaleDown.policies[0].periodSeconds=10",
		"projector.backlog.interval=1s",
		"projector.resources.requests.cpu=20m,projector.resources.requests.memory=64Mi",
	)
	prometheus := r.servePrometheus()
	r.values = append(r.values, "projector.autoscaling.keda.sessions.serverAddress=http://"+prometheus.address)
	r.upgrade()
	r.scaleCycle("KEDA by messages and sessions", prometheus)
	if prometheus.answers.Load() == 0 {
		t.Error("KEDA has not asked for the sessions")
	}
	prometheus.fails.Store(true)
	r.scaleCycle("KEDA while Prometheus fails: messages alone", prometheus)
}

// scaleCycle scales from zero projectors to several and back to zero, under a load that
// starts and stops.
func (r *release) scaleCycle(what string, prometheus *prometheus) {
	r.t.Helper()
	var seen []int32
	note := func() int32 {
		count := *r.projector().Spec.Replicas
		if len(seen) == 0 || seen[len(seen)-1] != count {
			seen = append(seen, count)
		}
		return count
	}
	await(r.t, "no projector without load", func() (bool, string) { return note() == 0, fmt.Sprint(seen) })
	seen = []int32{0}
	begun := time.Now()
	r.resume(autoscalingRate)
	await(r.t, "projectors under load", func() (bool, string) { return note() > 1, fmt.Sprint(seen) })
	up := r.recovered(begun)
	r.verify()
	begun = time.Now()
	await(r.t, "no projector after the load", func() (bool, string) { return note() == 0, fmt.Sprint(seen) })
	suite.table.add(row{
		what: what, restarts: r.restarts(), took: up,
		note: fmt.Sprintf("until a new event is through; pods %s, up to %d sessions counted; back to 0 after %.0f s without load",
			strings.Trim(fmt.Sprint(seen), "[]"), prometheus.max.Swap(0), time.Since(begun).Seconds()),
	})
}

// administerBroker serves sbemu's administration API to KEDA over TLS, with a certificate
// of the cluster's authority, at port 443 of its service.
func (p *pipeline) administerBroker() {
	p.t.Helper()
	host := "sbemu." + p.namespace + ".svc.cluster.local"
	identity, err := suite.control.Component("sbemu", "sbemu", []string{host})
	must(p.t, err)
	kubectl(p.t, "-n", p.namespace, "create", "secret", "tls", "sbemu", "--cert="+identity.Certificate, "--key="+identity.Key)
	kubectl(p.t, "-n", p.namespace, "create", "secret", "generic", "keda-servicebus",
		"--from-literal=connection-string=Endpoint=sb://"+host+"/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE")
	kubectl(p.t, "-n", p.namespace, "patch", "service", "sbemu", "--type=json", "-p",
		`[{"op": "add", "path": "/spec/ports/-", "value": {"name": "administration", "port": 443, "targetPort": 8443}}]`)
	kubectl(p.t, "-n", p.namespace, "patch", "deployment", "sbemu", "--type=json", "-p", `[
		{"op": "add", "path": "/spec/template/spec/volumes", "value": [{"name": "tls", "secret": {"secretName": "sbemu"}}]},
		{"op": "add", "path": "/spec/template/spec/containers/0/volumeMounts", "value": [{"name": "tls", "mountPath": "/tls"}]},
		{"op": "add", "path": "/spec/template/spec/containers/0/command/-", "value": "--admin-address=:8443"},
		{"op": "add", "path": "/spec/template/spec/containers/0/command/-", "value": "--tls-certificate=/tls/tls.crt"},
		{"op": "add", "path": "/spec/template/spec/containers/0/command/-", "value": "--tls-key=/tls/tls.key"}]`)
	kubectl(p.t, "-n", p.namespace, "rollout", "status", "deployment/sbemu", "--timeout=2m")
}

// installKEDA installs KEDA by its own manifests, with the programs in tools. KEDA gets all
// rights, and trusts the cluster's authority.
func installKEDA(t *testing.T, tools string) {
	t.Helper()
	image := node.Image{Name: kedaImage, Entrypoint: []string{"/keda"}, Files: map[string]string{
		"keda": filepath.Join(tools, "operator"), "keda-adapter": filepath.Join(tools, "adapter"),
	}}
	archive := filepath.Join(suite.dir, "keda.tar")
	must(t, image.WriteArchive(archive))
	must(t, suite.node.Import(t.Context(), archive))
	kubectl(t, "apply", "--server-side", "-f", filepath.Join(tools, "crds.yaml"))
	manifests, err := os.ReadFile(filepath.Join(tools, "keda.yaml"))
	must(t, err)
	file := filepath.Join(suite.dir, "keda.yaml")
	must(t, os.WriteFile(file, []byte(strings.NewReplacer(
		"ghcr.io/kedacore/keda:latest", kedaImage, "ghcr.io/kedacore/keda-metrics-apiserver:latest", kedaImage,
		"imagePullPolicy: Always", "imagePullPolicy: Never",
		// No webhooks are installed here.
		"- --enable-cert-rotation=true", "- --enable-cert-rotation=true\n            - --enable-webhook-patching=false",
	).Replace(string(manifests))), 0o600))
	kubectl(t, "apply", "-f", file)
	identity, err := suite.control.Component("keda-trusts", "keda-trusts", nil)
	must(t, err)
	kubectl(t, "-n", "keda", "create", "configmap", "authority", "--from-file=ca.crt="+identity.Authority)
	kubectl(t, "-n", "keda", "patch", "deployment", "keda-operator", "--type=json", "-p", `[
		{"op": "add", "path": "/spec/template/spec/volumes/-", "value": {"name": "authority", "configMap": {"name": "authority"}}},
		{"op": "add", "path": "/spec/template/spec/containers/0/volumeMounts/-", "value": {"name": "authority", "mountPath": "/custom/ca"}}]`)
	_, err = suite.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "keda"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.ServiceAccountKind, Namespace: "keda", Name: "keda-operator"},
			{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: "horizontal-pod-autoscaler"},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	kubectl(t, "-n", "keda", "rollout", "status", "deployment/keda-operator", "deployment/keda-metrics-apiserver", "--timeout=4m")
	kubectl(t, "wait", "--for=condition=Available", "apiservice/v1beta1.external.metrics.k8s.io", "--timeout=2m")
}

// prometheus answers the chart's query for the sessions of a release, like a Prometheus
// that has just scraped the projector's pods.
type prometheus struct {
	release *release
	address string
	// fails makes it answer with errors.
	fails atomic.Bool
	// answers counts the answers with a number, and max is the largest number.
	answers, max atomic.Int64
}

// servePrometheus serves on the node's address, which pods can reach.
func (r *release) servePrometheus() *prometheus {
	r.t.Helper()
	listener, err := net.Listen("tcp", node.Address+":0")
	must(r.t, err)
	p := &prometheus{release: r, address: listener.Addr().String()}
	server := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	r.t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return p
}

// ServeHTTP implements [http.Handler] for /api/v1/query.
func (p *prometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.FormValue("query")
	if p.fails.Load() || r.URL.Path != "/api/v1/query" || !strings.HasPrefix(query, "max("+backlogSessions+"{") {
		http.Error(w, "no answer to "+r.URL.String(), http.StatusServiceUnavailable)
		return
	}
	result := []any{}
	if sessions := p.sessions(r.Context()); len(sessions) > 0 {
		highest := slices.Max(sessions)
		p.answers.Add(1)
		p.max.Store(max(p.max.Load(), highest))
		result = append(result, map[string]any{"metric": struct{}{}, "value": []any{time.Now().Unix(), strconv.FormatInt(highest, 10)}})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": result}})
}

const backlogSessions = "penstock_projector_backlog_sessions"

// sessions returns the numbers that the projector's pods report.
func (p *prometheus) sessions(ctx context.Context) []int64 {
	pods, err := suite.client.CoreV1().Pods(p.release.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/component=projector,app.kubernetes.io/instance=" + p.release.name,
	})
	if err != nil {
		return nil
	}
	var found []int64
	for _, pod := range pods.Items {
		if n, err := scrape(ctx, &pod); err == nil {
			found = append(found, n)
		}
	}
	return found
}

// scrape reads the number of sessions from a pod's metrics.
func scrape(ctx context.Context, pod *corev1.Pod) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(pod.Status.PodIP, "8080")+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, backlogSessions+" "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("pod %s has no metric %s", pod.Name, backlogSessions)
}
