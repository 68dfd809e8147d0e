//go:build linux

package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

// layout has the values in the configurations of the node's programs.
type layout struct {
	// Tools and Dir are from [Options]. Cgroup is the parent of all pods' cgroups.
	Tools, Dir, Cgroup string
	Name               string
	Address, Pods, DNS string
	PauseImage         string
	Kubelet, KubeProxy controlplane.Component
	// Cluster is the identity of the cluster's services on the node.
	Cluster controlplane.Component
}

// containerdConfig omits features that the kernel or this machine may lack: NRI, AppArmor,
// the snapshotters of other file systems. Without the right to lower a process's OOM score,
// every sandbox fails unless restrict_oom_score_adj is set.
const containerdConfig = `
version = 3
root = '{{.Dir}}/containerd'
state = '{{.Dir}}/state'
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.zfs', 'io.containerd.snapshotter.v1.devmapper', 'io.containerd.snapshotter.v1.blockfile', 'io.containerd.snapshotter.v1.erofs']
[grpc]
address = '{{.Dir}}/containerd.sock'
[ttrpc]
address = '{{.Dir}}/containerd.sock.ttrpc'
[plugins.'io.containerd.internal.v1.opt']
path = '{{.Dir}}/opt'
[plugins.'io.containerd.cri.v1.images']
snapshotter = 'overlayfs'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{{.PauseImage}}'
[plugins.'io.containerd.cri.v1.runtime']
disable_apparmor = true
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{{.Tools}}/cni']
conf_dir = '{{.Dir}}/cni'
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = 'runc'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = '{{.Tools}}/runc'
SystemdCgroup = false
`

const cniConfig = `{"cniVersion": "1.0.0", "name": "penstock", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "{{.Dir}}/ipam", "ranges": [[{"subnet": "{{.Pods}}"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
`

// kubeletConfig sets every folder whose default is on the machine. The node has no
// iptables, and its images cannot be pulled again. It evicts no pods for lack of memory or
// disk, which it would measure on the whole machine: kubelet counts a part of the page cache
// as used.
const kubeletConfig = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 0.0.0.0
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /{{.Cgroup}}
containerRuntimeEndpoint: unix://{{.Dir}}/containerd.sock
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: {{.Kubelet.Authority}}}
authorization: {mode: Webhook}
tlsCertFile: {{.Kubelet.Certificate}}
tlsPrivateKeyFile: {{.Kubelet.Key}}
clusterDNS: [{{.DNS}}]
clusterDomain: cluster.local
resolvConf: {{.Dir}}/resolv.conf
failSwapOn: false
evictionHard: {memory.available: 0%, nodefs.available: 0%, imagefs.available: 0%, nodefs.inodesFree: 0%, imagefs.inodesFree: 0%}
imageGCHighThresholdPercent: 100
makeIPTablesUtilChains: false
serializeImagePulls: false
podLogsDir: {{.Dir}}/podlogs
volumePluginDir: {{.Dir}}/volumeplugins
syncFrequency: 10s
nodeStatusUpdateFrequency: 5s
readOnlyPort: 0
`

const kubeProxyConfig = `
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: {{.KubeProxy.Kubeconfig}}}
hostnameOverride: {{.Name}}
clusterCIDR: {{.Pods}}
bindAddress: {{.Address}}
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`

const coreDNSConfig = `
.:53 {
    errors
    ready 127.0.0.1:8181
    kubernetes cluster.local {
        kubeconfig {{.Cluster.Kubeconfig}}
        pods disabled
    }
    cache 5
}
`

// write writes a configuration to the node's folder.
func (l layout) write(name, text string) error {
	var out strings.Builder
	if err := template.Must(template.New(name).Parse(text)).Execute(&out, l); err != nil {
		return fmt.Errorf("make the configuration %s: %w", name, err)
	}
	path := filepath.Join(l.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}
