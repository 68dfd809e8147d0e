package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/penstock-cdc/penstock/integration/proc"
)

// extensionNamespace is the namespace of the extensions' services. Their certificates are
// for services of this namespace.
const extensionNamespace = metav1.NamespaceDefault

// Extend makes handler an extension API server for a version of a group, such as one of
// metrics. It returns when requests reach handler. They have paths below
// /apis/<group>/<version>, and come only from the API server, which has checked the
// caller's rights. [ControlPlane.Stop] stops the extension.
func (c *ControlPlane) Extend(ctx context.Context, group, version string, handler http.Handler) error {
	name := version + "." + group
	config, err := c.extensionTLS(name)
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		return fmt.Errorf("listen as %s: %w", name, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: proc.ReadyTimeout}
	c.extensions = append(c.extensions, server)
	c.serving.Go(func() { _ = server.Serve(listener) })
	if err := c.register(ctx, group, version, listener.Addr().(*net.TCPAddr)); err != nil {
		return fmt.Errorf("register %s: %w", name, err)
	}
	return nil
}

// extensionTLS makes a server certificate that the API server trusts, and accepts only the
// API server as a client.
func (c *ControlPlane) extensionTLS(name string) (*tls.Config, error) {
	files, err := c.cluster.issue(name, name)
	if err != nil {
		return nil, err
	}
	serving, err := tls.LoadX509KeyPair(files.certificate, files.key)
	if err != nil {
		return nil, fmt.Errorf("load the certificate of %s: %w", name, err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(c.front.certificate)
	return &tls.Config{
		Certificates: []tls.Certificate{serving}, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
		NextProtos: []string{"h2", "http/1.1"},
	}, nil
}

// register registers an extension at the API server, and waits until it is served. The
// service has an external name, because without a proxy cluster addresses lead nowhere.
func (c *ControlPlane) register(ctx context.Context, group, version string, at *net.TCPAddr) error {
	authority, err := os.ReadFile(c.cluster.path())
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(c.client)
	if err != nil {
		return err
	}
	service := strings.ReplaceAll(group, ".", "-")
	services := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "services"}).Namespace(extensionNamespace)
	_, err = services.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": service},
		"spec":     map[string]any{"type": "ExternalName", "externalName": at.IP.String()},
	}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	name := version + "." + group
	registrations := client.Resource(schema.GroupVersionResource{
		Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices",
	})
	_, err = registrations.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": group, "version": version, "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"service":  map[string]any{"namespace": extensionNamespace, "name": service, "port": int64(at.Port)},
			"caBundle": base64.StdEncoding.EncodeToString(authority),
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return c.api.AwaitReady(ctx, func(ctx context.Context) error {
		registration, err := registrations.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(registration.Object, "status", "conditions")
		if err != nil {
			return err
		}
		for _, condition := range conditions {
			if c, ok := condition.(map[string]any); ok && c["type"] == "Available" && c["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("%s is not available: %v", name, conditions)
	})
}

// stopExtensions stops the servers that [ControlPlane.Extend] has started.
func (c *ControlPlane) stopExtensions() {
	for _, server := range c.extensions {
		_ = server.Close()
	}
	c.serving.Wait()
}
