//go:build linux

package node

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// Addresses of the node. The bridge has no link to the outside.
const (
	// Address is the node's own address.
	Address = "172.30.0.1"
	// podRange is the range of the pods' addresses, on a bridge that the CNI plugin makes.
	podRange = "10.244.0.0/24"
	// dnsAddress is the address of CoreDNS's service.
	dnsAddress = "10.0.0.10"
	bridge     = "node0"
)

// ownFolders are replaced by empty folders, because the node's programs write there
// whatever their configuration says: sockets of shims, links to logs, results of CNI.
var ownFolders = []string{"/run", "/var/log", "/var/lib/cni"}

// missingFolders returns the ownFolders that the machine does not have.
func missingFolders() []string {
	return slices.DeleteFunc(slices.Clone(ownFolders), func(folder string) bool {
		_, err := os.Stat(folder)
		return err == nil
	})
}

// mountOwn separates this namespace's mounts from the machine's, and mounts a /proc with
// its own processes.
func mountOwn() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, folder := range ownFolders {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", folder, err)
		}
		if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("mount an empty %s: %w", folder, err)
		}
	}
	return nil
}

// linkUp makes the links and routes of this namespace.
func linkUp() error {
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", bridge, "type", "bridge"},
		{"addr", "add", Address + "/24", "dev", bridge},
		{"link", "set", bridge, "up"},
		// kubelet and the API server look for the interface of the default route.
		{"route", "add", "default", "dev", bridge},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600); err != nil {
		return fmt.Errorf("forward packets between pods: %w", err)
	}
	return nil
}
