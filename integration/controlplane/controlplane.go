package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/penstock-cdc/penstock/integration/proc"
)

// Options configure a control plane.
type Options struct {
	// Tools is the folder of binaries: see [Tools].
	Tools string
	// Dir gets certificates, keys, data and logs. It must exist and be empty. The caller
	// removes it after Stop.
	Dir string
	// NodeAddress is the IP address at which the pods and the kubelet of a node reach the
	// API server, which then listens on every address. The controllers and the scheduler
	// run too. Empty means no node.
	NodeAddress string
}

// ControlPlane is a running control plane. It is not safe for concurrent use, except for
// requests to the API server.
type ControlPlane struct {
	opts    Options
	cluster *authority
	// front signs the client certificate that the API server shows to extension API
	// servers.
	front *authority
	admin pair
	// etcdURL and address stay the same when the processes that listen there restart.
	etcdURL, address string
	client           *rest.Config
	// kubeconfig is the administrator's, for programs.
	kubeconfig string
	// args are the API server's; nil before its first start.
	args []string

	etcd, api *proc.Process
	// components run on top of the API server, in the order of their start.
	components []*proc.Process
}

// Start starts a control plane and waits until it is ready. ctx bounds only the start; the
// caller stops the control plane.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	c := &ControlPlane{opts: opts}
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil || c.opts.NodeAddress == "" {
		return err
	}
	if err := c.startControllers(ctx); err != nil {
		return err
	}
	return c.startScheduler()
}

// prepare finds addresses and makes the certificates.
func (c *ControlPlane) prepare() error {
	entries, err := os.ReadDir(c.opts.Dir)
	if err != nil {
		return fmt.Errorf("look at the control plane's folder: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty: a control plane needs a folder of its own", c.opts.Dir)
	}
	for _, address := range []*string{&c.etcdURL, &c.address} {
		if *address, err = proc.FreeAddress(); err != nil {
			return err
		}
	}
	c.etcdURL = "https://" + c.etcdURL
	if c.cluster, err = newAuthority(c.opts.Dir, "cluster-ca"); err != nil {
		return err
	}
	if c.front, err = newAuthority(c.opts.Dir, "front-proxy-ca"); err != nil {
		return err
	}
	if c.admin, err = c.cluster.issue("admin", "admin", "system:masters"); err != nil {
		return err
	}
	c.client = &rest.Config{
		Host: c.URL(),
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: c.cluster.path(), CertFile: c.admin.certificate, KeyFile: c.admin.key,
		},
		QPS: -1,
	}
	c.kubeconfig, err = c.kubeconfigFile("admin", c.admin)
	return err
}

// URL returns the URL of the API server.
func (c *ControlPlane) URL() string { return "https://" + c.address }

// Admin returns the configuration of a client with all rights and without a rate limit.
func (c *ControlPlane) Admin() *rest.Config { return rest.CopyConfig(c.client) }

// APIServer returns the process of the API server, to signal or kill it.
// [ControlPlane.StartAPIServer] starts another one.
func (c *ControlPlane) APIServer() *proc.Process { return c.api }

// Stop kills every process and waits for its end. Their files stay.
func (c *ControlPlane) Stop() {
	processes := append([]*proc.Process{c.etcd, c.api}, c.components...)
	for _, process := range slices.Backward(processes) {
		if process != nil {
			process.Kill()
		}
	}
}

// run starts one of the programs.
func (c *ControlPlane) run(name string, args ...string) (*proc.Process, error) {
	return proc.Start(proc.Spec{
		Name: name, Binary: filepath.Join(c.opts.Tools, name), Args: args,
		// The programs must not find the user's configuration.
		Env: []string{"HOME=" + c.opts.Dir}, LogDir: c.opts.Dir,
	})
}

// runComponent starts a program that uses the API server.
func (c *ControlPlane) runComponent(name string, args ...string) (*proc.Process, error) {
	process, err := c.run(name, args...)
	if err != nil {
		return nil, err
	}
	c.components = append(c.components, process)
	return process, nil
}
