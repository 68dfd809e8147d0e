package chart_test

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1client "k8s.io/client-go/kubernetes/typed/policy/v1"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

// A release is installed, checked, changed, rolled back and uninstalled by the commands of
// docs/install.md. Wrong upgrades are refused.
func TestLifeCycle(t *testing.T) {
	r := newRelease(t, "life-cycle")
	before := r.settled()

	notes := r.upgrade(projections)
	r.complete()
	r.notes(notes)
	helm(t, "test", releaseName, "--namespace", r.namespace)
	leads := r.lead()
	first := r.snapshot()

	deleted := r.watchPods()
	r.upgrade(changedProjections, "--set", "publisher.publish.connections=8")
	r.complete()
	if order := deleted(); !slices.Equal(order, []string{publisher + "-2", publisher + "-1", publisher + "-0"}) {
		t.Errorf("the publisher's pods were replaced in the order %v, not the highest ordinal first", order)
	}
	second := r.snapshot()
	for what := range first {
		if reflect.DeepEqual(first[what], second[what]) {
			t.Errorf("the upgrade has not changed %s: %v", what, first[what])
		}
	}
	leads()

	r.refusals()
	if now := r.snapshot(); !reflect.DeepEqual(now, second) {
		t.Errorf("refused upgrades have changed the release from %v to %v", second, now)
	}
	r.takenBack()
	if now := r.snapshot(); !reflect.DeepEqual(now, second) {
		t.Errorf("an upgrade that was taken back has left %v of %v", now, second)
	}

	helm(t, "rollback", releaseName, "1", "--namespace", r.namespace, "--wait", "--timeout", settleTimeout.String())
	r.complete()
	if now := r.snapshot(); !reflect.DeepEqual(now, first) {
		t.Errorf("the rollback has led to %v, not back to %v", now, first)
	}
	leads()

	r.uninstall(before)
}

// settled returns the inventory when every namespace has its default objects.
func (r *release) settled() map[string]bool {
	r.t.Helper()
	var before map[string]bool
	await(r.t, "the namespaces' own objects", func() (bool, string) {
		before = inventory(r.t)
		for object := range before {
			name, isNamespace := strings.CutPrefix(object, "v1 namespaces  ")
			if !isNamespace || strings.HasPrefix(name, "kube-") {
				continue
			}
			if !before["v1 serviceaccounts "+name+" default"] || !before["v1 configmaps "+name+" kube-root-ca.crt"] {
				return false, name + " lacks some"
			}
		}
		return before["v1 namespaces  "+r.namespace], strings.Join(slices.Sorted(maps.Keys(before)), "\n")
	})
	return before
}

// snapshot returns what differs between the objects of two revisions: the manifest, and the
// resulting pods.
func (r *release) snapshot() map[string]any {
	r.t.Helper()
	deployment := r.projector()
	set := r.publisher()
	return map[string]any{
		"the manifest":             helm(r.t, "get", "manifest", releaseName, "--namespace", r.namespace),
		"the projections":          deployment.Spec.Template.Annotations[projectionsAnnotation],
		"the projector's pods":     deployment.Spec.Template,
		"the publisher's pods":     set.Spec.Template,
		"the publisher's revision": set.Status.UpdateRevision,
	}
}

// notes runs the commands in the notes of the installation, as far as possible with kwok's
// pods, which have no logs.
func (r *release) notes(notes string) {
	r.t.Helper()
	commands := regexp.MustCompile(`(?m)^  kubectl (.*)$`).FindAllStringSubmatch(notes, -1)
	if len(commands) == 0 {
		r.t.Fatalf("the notes name no command:\n%s", notes)
	}
	for _, command := range commands {
		args := strings.Fields(command[1])
		verb := slices.IndexFunc(args, func(arg string) bool {
			return arg == "get" || arg == "logs" || arg == "exec" && args[len(args)-1] == "list"
		})
		if verb < 0 {
			r.t.Errorf("the notes have a command that changes something: kubectl %s", command[1])
			continue
		}
		// These pods run no programs. So only check whose logs are read and where commands
		// run. Package cluster runs the commands.
		switch args[verb] {
		case "logs":
			selector := slices.Index(args, "-l")
			args = append(args[:verb:verb], "get", "pods", "-l", args[selector+1])
		case "exec":
			args = append(args[:verb:verb], "get", args[verb+1])
		}
		if answer := kubectl(r.t, append(args, "--output", "name")...); strings.TrimSpace(answer) == "" {
			r.t.Errorf("kubectl %s finds nothing", command[1])
		}
	}
	if test := "helm -n " + r.namespace + " test " + releaseName; !strings.Contains(notes, test) {
		r.t.Errorf("the notes do not name %q:\n%s", test, notes)
	}
}

// refusals are upgrades that the chart refuses before it changes anything.
func (r *release) refusals() {
	r.t.Helper()
	before := r.history()
	for problem, args := range map[string][]string{
		"additional properties 'nonsense' not allowed":         {"--set", "projector.projections.nonsense=true"},
		"additional properties 'shop.txt' not allowed":         {"--set", `projector.projections.files.shop\.txt=projections`},
		"projector.projections.existingConfigMap are both set": {"--set", "projector.projections.existingConfigMap=mine"},
	} {
		out, err := command(r.t.Context(), "", controlplane.Helm, r.upgradeArgs(projections, args...)...)
		if err == nil || !strings.Contains(out.stderr, problem) {
			r.t.Errorf("%v is not refused because of %q: %v", args, problem, err)
		}
	}
	if after := r.history(); !slices.Equal(before, after) {
		r.t.Errorf("refused upgrades have changed the history from %v to %v", before, after)
	}
}

// takenBack upgrades to pods that never become ready. The earlier projectors keep running,
// and helm rolls back.
func (r *release) takenBack() {
	r.t.Helper()
	available := r.watchProjector(func(d *appsv1.Deployment) int32 { return d.Status.AvailableReplicas })
	out, err := command(r.t.Context(), "", controlplane.Helm, r.upgradeArgs(projections,
		"--set", "projector.nodeSelector.nodes=none", "--set", "publisher.nodeSelector.nodes=none", "--timeout", "20s")...)
	if err == nil {
		r.t.Errorf("helm has waited for pods that no node takes:\n%s", out.stdout)
	}
	history := r.history()
	if len(history) < 2 || history[len(history)-2].Status != "failed" {
		r.t.Errorf("the history does not show a failed upgrade: %v", history)
	}
	r.complete()
	if seen := available(); !slices.Equal(seen, []int32{2}) {
		r.t.Errorf("an upgrade that failed has changed the projectors available: %v, not 2 throughout", seen)
	}
}

// uninstall uninstalls the release, and compares the inventory with the one before. The
// leading publisher leads as long as it is allowed to.
func (r *release) uninstall(before map[string]bool) {
	r.t.Helper()
	budgets, err := policyv1client.NewForConfig(suite.control.Admin())
	must(r.t, err)
	list, err := budgets.PodDisruptionBudgets(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	must(r.t, err)
	if len(list.Items) != 2 {
		r.t.Errorf("the rollouts went on without budgets: there are %d, not 2", len(list.Items))
	}
	if during := difference(before, inventory(r.t)); strings.Count(during, "more: ") < 20 || strings.Contains(during, "less: ") {
		r.t.Errorf("the inventory misses what the chart has made:\n%s", during)
	}
	ended := r.cling()
	helm(r.t, "uninstall", releaseName, "--namespace", r.namespace, "--wait", "--timeout", settleTimeout.String())
	if err := <-ended; err != nil {
		r.t.Errorf("the last leader: %v", err)
	}
	await(r.t, "a cluster as before the installation", func() (bool, string) {
		left := difference(before, inventory(r.t))
		return left == "", left
	})
}
