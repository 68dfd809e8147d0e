package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/penstock-cdc/penstock/integration/proc"
)

// serviceRange is the range of the services' addresses.
const serviceRange = "10.0.0.0/24"

// serviceAddress is the address of the API server's own service.
const serviceAddress = "10.0.0.1"

func (c *ControlPlane) startEtcd(ctx context.Context) error {
	peer, err := proc.FreeAddress()
	if err != nil {
		return err
	}
	server, err := c.cluster.issue("etcd", "etcd")
	if err != nil {
		return err
	}
	c.etcd, err = c.run(etcd,
		"--name=default", "--data-dir="+filepath.Join(c.opts.Dir, "etcd"),
		"--listen-client-urls="+c.etcdURL, "--advertise-client-urls="+c.etcdURL,
		"--cert-file="+server.certificate, "--key-file="+server.key,
		"--client-cert-auth", "--trusted-ca-file="+c.cluster.path(),
		// etcd needs an address for peers, although there is none.
		"--listen-peer-urls=https://"+peer, "--initial-advertise-peer-urls=https://"+peer,
		"--initial-cluster=default=https://"+peer,
		"--peer-cert-file="+server.certificate, "--peer-key-file="+server.key,
		"--peer-client-cert-auth", "--peer-trusted-ca-file="+c.cluster.path(),
		"--unsafe-no-fsync", "--log-level=warn",
	)
	if err != nil {
		return err
	}
	return c.awaitHealthy(ctx, c.etcd, c.etcdURL+"/health")
}

// StartAPIServer starts the API server, also after it was killed, and waits until it is
// ready. It keeps its address and its data.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	if c.api != nil && c.api.Running() {
		return fmt.Errorf("start %s: it runs already", apiServer)
	}
	args, err := c.apiServerArgs()
	if err != nil {
		return err
	}
	if c.api, err = c.run(apiServer, args...); err != nil {
		return err
	}
	return c.awaitHealthy(ctx, c.api, c.URL()+"/readyz")
}

// apiServerArgs returns the API server's arguments. The keys of tokens are made only once,
// because a restarted API server must accept the tokens issued before.
func (c *ControlPlane) apiServerArgs() ([]string, error) {
	if c.args != nil {
		return c.args, nil
	}
	var hosts []string
	if c.opts.NodeAddress != "" {
		hosts = []string{c.opts.NodeAddress, serviceAddress, "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	}
	serving, err := c.cluster.issueFor(hosts, "apiserver", "kube-apiserver")
	if err != nil {
		return nil, err
	}
	proxying, err := c.front.issue("front-proxy-client", "front-proxy-client")
	if err != nil {
		return nil, err
	}
	signing, err := c.cluster.signingKey(tokenKey)
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(c.address, ":")
	args := []string{
		"--secure-port=" + port,
		"--tls-cert-file=" + serving.certificate, "--tls-private-key-file=" + serving.key,
		"--client-ca-file=" + c.cluster.path(),
		"--etcd-servers=" + c.etcdURL, "--etcd-cafile=" + c.cluster.path(),
		"--etcd-certfile=" + c.admin.certificate, "--etcd-keyfile=" + c.admin.key,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + signing, "--service-account-signing-key-file=" + signing,
		"--service-cluster-ip-range=" + serviceRange,
		// Extension API servers, such as one of metrics, trust requests with these headers.
		"--requestheader-client-ca-file=" + c.front.path(),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + proxying.certificate, "--proxy-client-key-file=" + proxying.key,
	}
	if c.opts.NodeAddress == "" {
		args = append(args,
			"--bind-address="+host, "--advertise-address="+host, "--authorization-mode=RBAC",
			// The service "kubernetes" cannot have a loopback address as its endpoint.
			"--endpoint-reconciler-type=none",
			// Pods would need an account that a controller makes.
			"--disable-admission-plugins=ServiceAccount",
		)
	} else {
		client, err := c.cluster.issue("apiserver-kubelet", "apiserver-kubelet", "system:masters")
		if err != nil {
			return nil, err
		}
		args = append(args,
			"--bind-address=0.0.0.0", "--advertise-address="+c.opts.NodeAddress,
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--kubelet-certificate-authority="+c.cluster.path(), "--kubelet-preferred-address-types=InternalIP",
			"--kubelet-client-certificate="+client.certificate, "--kubelet-client-key="+client.key,
		)
	}
	c.args = args
	return args, nil
}

// awaitHealthy polls a URL until it answers 200.
func (c *ControlPlane) awaitHealthy(ctx context.Context, process *proc.Process, url string) error {
	client, err := rest.HTTPClientFor(c.client)
	if err != nil {
		return fmt.Errorf("make a client for %s: %w", process.Name, err)
	}
	return process.AwaitReady(ctx, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	})
}
