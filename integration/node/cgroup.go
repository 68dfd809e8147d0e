//go:build linux

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	// removeTimeout bounds the wait until killed processes have ended.
	removeTimeout = 10 * time.Second
)

// cgroup is the parent of all pods' cgroups. With cgroup v1 there is one in each hierarchy.
type cgroup struct {
	name    string
	folders []string
}

func newCgroup(name string) (*cgroup, error) {
	g := &cgroup{name: name}
	hierarchies := []string{cgroupRoot}
	unified := isUnified()
	if !unified {
		var err error
		if hierarchies, err = legacyHierarchies(); err != nil {
			return nil, err
		}
	}
	for _, hierarchy := range hierarchies {
		folder := filepath.Join(hierarchy, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			return nil, errors.Join(fmt.Errorf("make the node's cgroup: %w", err), g.remove())
		}
		g.folders = append(g.folders, folder)
		var err error
		if unified {
			err = delegate(hierarchy)
		} else {
			err = inheritCPUs(hierarchy, folder)
		}
		if err != nil {
			return nil, errors.Join(err, g.remove())
		}
	}
	return g, nil
}

// isUnified reports whether the machine has cgroup v2 only.
func isUnified() bool {
	_, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers"))
	return err == nil
}

// legacyHierarchies returns the folders of cgroup v1, without the links to others.
func legacyHierarchies() ([]string, error) {
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("list the cgroups: %w", err)
	}
	var found []string
	for _, entry := range entries {
		if entry.IsDir() {
			found = append(found, filepath.Join(cgroupRoot, entry.Name()))
		}
	}
	return found, nil
}

// inheritCPUs copies the parent's processors and memory nodes to a cgroup of cpuset. In
// cgroup v1 they are empty, and no process may enter the cgroup then.
func inheritCPUs(hierarchy, folder string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(hierarchy, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, file), value, 0o600)
		}
		if err != nil {
			return fmt.Errorf("inherit %s: %w", file, err)
		}
	}
	return nil
}

// delegate enables all controllers of a v2 cgroup for its children.
func delegate(hierarchy string) error {
	available, err := os.ReadFile(filepath.Join(hierarchy, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("list the controllers of %s: %w", hierarchy, err)
	}
	for _, controller := range strings.Fields(string(available)) {
		if err := os.WriteFile(filepath.Join(hierarchy, "cgroup.subtree_control"), []byte("+"+controller), 0o600); err != nil {
			return fmt.Errorf("pass the controller %s on: %w (in a container, processes must first leave its root cgroup)", controller, err)
		}
	}
	return nil
}

// remove removes the cgroups and their children, once their processes have ended.
func (g *cgroup) remove() error {
	deadline := time.Now().Add(removeTimeout)
	for {
		err := g.removeEmpty()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (g *cgroup) removeEmpty() error {
	var problems []error
	for _, top := range g.folders {
		var folders []string
		err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				folders = append(folders, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
		for _, folder := range slices.Backward(folders) {
			if err := syscall.Rmdir(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
				problems = append(problems, fmt.Errorf("remove the cgroup %s: %w", folder, err))
			}
		}
	}
	return errors.Join(problems...)
}
