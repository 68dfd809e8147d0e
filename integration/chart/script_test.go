package chart_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// The script of `helm test` passes if all pods are ready and one publisher leads, and
// otherwise says what is wrong.
func TestHelmTestScript(t *testing.T) {
	start(t)
	const (
		first      = publisher + "-0." + publisher + ".shop.svc:8080"
		second     = publisher + "-1." + publisher + ".shop.svc:8080"
		projectors = projector + ".shop.svc:8080"
	)
	leads, stands, unready := pod{ready: true, leads: true}, pod{ready: true}, pod{}
	for name, test := range map[string]struct {
		pods   map[string]pod
		passes bool
		says   string // the last line
	}{
		"all ready and one leads": {map[string]pod{first: stands, second: leads, projectors: stands}, true, projectors + " is ready\n"},
		"no publisher leads":      {map[string]pod{first: stands, second: stands, projectors: stands}, false, "0 publishers lead, not 1\n"},
		"two publishers lead":     {map[string]pod{first: leads, second: leads, projectors: stands}, false, "2 publishers lead, not 1\n"},
		"a publisher not ready":   {map[string]pod{first: leads, second: unready, projectors: stands}, false, second + " is not ready: no primary\n"},
		"a publisher missing":     {map[string]pod{first: leads, projectors: stands}, false, second + " is not ready: curl: no such host\n"},
		"a projection is rebuilt": {map[string]pod{first: stands, second: leads, projectors: {ready: true, rebuild: "verifying"}}, true,
			"penstock_projector_generation_building{projection=\"users\",state=\"verifying\"} 2\n"},
		"a rebuild has failed": {map[string]pod{first: stands, second: leads, projectors: {ready: true, rebuild: "failed"}}, false,
			"the rebuild of a projection has failed: /projector projections list has the reason\n"},
		"no projector ready": {map[string]pod{first: leads, second: stands, projectors: unready}, false, projectors + " is not ready: no primary\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A case that must fail has time for only one attempt each.
			timeout := time.Second
			if test.passes {
				timeout = settleTimeout
			}
			out, err := testScript(t, test.pods, timeout).CombinedOutput()
			if (err == nil) != test.passes || !strings.HasSuffix(string(out), test.says) {
				t.Errorf("the script ends with %v, and says in the end not %q:\n%s", err, test.says, out)
			}
		})
	}
}

// testScript prepares the script of the pod of `helm test`, with those pods.
func testScript(t *testing.T, pods map[string]pod, timeout time.Duration) *exec.Cmd {
	t.Helper()
	var test corev1.Pod
	must(t, yaml.Unmarshal([]byte(helm(t, "template", releaseName, chart, "--namespace", "shop", "--values", values+"/minimal.yaml",
		"--set", "tests.timeoutSeconds="+strconv.Itoa(int(timeout.Seconds())), "--show-only", "templates/test.yaml")), &test))
	addresses := make(url.Values)
	for host, says := range pods {
		server := httptest.NewServer(says)
		t.Cleanup(server.Close)
		addresses.Set(host, server.Listener.Addr().String())
	}
	self, err := os.Executable()
	must(t, err)
	bin := t.TempDir()
	must(t, os.Symlink(self, filepath.Join(bin, "curl")))
	container := test.Spec.Containers[0]
	args := slices.Concat(container.Command, container.Args)
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), addressesVariable + "=" + addresses.Encode()}
	return cmd
}

// pod has the answers of a pod's admin port.
type pod struct {
	ready, leads bool
	// rebuild is the state of a rebuild; empty for none.
	rebuild string
}

func (p pod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/metrics":
		leads := 0
		if p.leads {
			leads = 1
		}
		_, _ = fmt.Fprintf(w, "# TYPE penstock_publisher_leader gauge\npenstock_publisher_leader %d\n", leads)
		if p.rebuild != "" {
			_, _ = fmt.Fprintf(w, "penstock_projector_generation_building{projection=\"users\",state=%q} 2\n", p.rebuild)
		}
	case "/readyz":
		if !p.ready {
			http.Error(w, "no primary", http.StatusServiceUnavailable)
		}
	default:
		http.NotFound(w, r)
	}
}

// addressesVariable makes this program replace the curl in the image of `helm test`. It has
// the address of each host.
const addressesVariable = "PENSTOCK_TEST_ADDRESSES"

// curl implements the flags that the script uses, and refuses others.
func curl(addresses string, args []string) int {
	flags := flag.NewFlagSet("curl", flag.ExitOnError)
	for _, name := range []string{"silent", "show-error", "fail-with-body"} {
		flags.Bool(name, false, "as curl's")
	}
	seconds := flags.Int("max-time", 0, "as curl's")
	_ = flags.Parse(args)
	asked, err := url.Parse(flags.Arg(0))
	if err != nil || flags.NArg() != 1 {
		fmt.Fprintf(os.Stderr, "curl: not one URL: %q\n", flags.Args())
		return 3
	}
	known, err := url.ParseQuery(addresses)
	if err != nil || !known.Has(asked.Host) {
		fmt.Fprintln(os.Stderr, "curl: no such host")
		return 6
	}
	asked.Host = known.Get(asked.Host)
	client := http.Client{Timeout: time.Duration(*seconds) * time.Second}
	response, err := client.Get(asked.String())
	if err != nil {
		fmt.Fprintln(os.Stderr, "curl:", err)
		return 7
	}
	defer response.Body.Close()
	_, _ = io.Copy(os.Stdout, response.Body)
	if response.StatusCode >= http.StatusBadRequest {
		return 22
	}
	return 0
}
