//go:build linux

package node

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// metricsPort is where metrics-server listens.
const metricsPort = 4443

// startDNS runs CoreDNS as a process of the node, behind the service that pods use.
func (n *Node) startDNS(ctx context.Context) error {
	err := n.serve(ctx, "kube-dns", dnsAddress,
		corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP},
		corev1.ServicePort{Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP},
	)
	if err != nil {
		return err
	}
	process, err := n.run(coreDNS, "-conf", filepath.Join(n.opts.Dir, "Corefile"))
	if err != nil {
		return err
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(dnsAddress, "53"))
	}}
	return process.AwaitReady(ctx, func(ctx context.Context) error {
		_, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
		return err
	})
}

// StartMetrics runs metrics-server as a process of the node, and waits until the API
// server serves its metrics.
func (n *Node) StartMetrics(ctx context.Context) error {
	if err := n.serve(ctx, metricsServer, "", corev1.ServicePort{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}); err != nil {
		return err
	}
	identity := n.layout.Cluster
	process, err := n.run(metricsServer,
		"--kubeconfig="+identity.Kubeconfig, "--authentication-kubeconfig="+identity.Kubeconfig, "--authorization-kubeconfig="+identity.Kubeconfig,
		fmt.Sprintf("--secure-port=%d", metricsPort), "--tls-cert-file="+identity.Certificate, "--tls-private-key-file="+identity.Key,
		"--kubelet-certificate-authority="+identity.Authority, "--kubelet-preferred-address-types=InternalIP",
		// The two durations must differ.
		"--metric-resolution=10s", "--kubelet-request-timeout=5s",
	)
	if err != nil {
		return err
	}
	authority, err := os.ReadFile(identity.Authority)
	if err != nil {
		return fmt.Errorf("register %s: %w", metricsServer, err)
	}
	client, err := dynamic.NewForConfig(n.opts.Control.Admin())
	if err != nil {
		return fmt.Errorf("register %s: %w", metricsServer, err)
	}
	registrations := client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	_, err = registrations.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1beta1.metrics.k8s.io"},
		"spec": map[string]any{
			"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"service":  map[string]any{"namespace": metav1.NamespaceSystem, "name": metricsServer},
			"caBundle": base64.StdEncoding.EncodeToString(authority),
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("register %s: %w", metricsServer, err)
	}
	nodes := client.Resource(schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "nodes"})
	return process.AwaitReady(ctx, func(ctx context.Context) error {
		_, err := nodes.Get(ctx, Name, metav1.GetOptions{})
		return err
	})
}

// serve makes a service of the cluster whose ports lead to the node itself. Port 443 leads
// to metricsPort, every other port to the same number.
func (n *Node) serve(ctx context.Context, name, clusterIP string, ports ...corev1.ServicePort) error {
	_, err := n.client.CoreV1().Services(metav1.NamespaceSystem).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: clusterIP, Ports: ports},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make the service %s: %w", name, err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{Address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
	}
	for _, port := range ports {
		target := port.Port
		if target == 443 {
			target = metricsPort
		}
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port.Name, Port: &target, Protocol: &port.Protocol})
	}
	if _, err := n.client.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem).Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make the endpoints of the service %s: %w", name, err)
	}
	return nil
}
