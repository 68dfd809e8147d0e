package build_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// azureScript runs the end-to-end tests on Azure. These tests run it with fake az and go
// programs that only record their calls.
const azureScript = "../../hack/azure/run.sh"

// fakes returns a folder with fake az and go programs that append their arguments to a
// file. go fails if the file fail-go exists. az fails to delete if the file fail-delete
// exists.
func fakes(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "az"), `#!/bin/sh
echo "az $*" >>"$FAKES/calls"
case "$*" in
"account show"*) echo Test ;;
*"keys list"*) echo "Endpoint=sb://x/;SharedAccessKeyName=k;SharedAccessKey=SECRET" ;;
"servicebus namespace create"*) [ ! -e "$FAKES/fail-create" ] ;;
"group delete"*) [ ! -e "$FAKES/fail-delete" ] ;;
esac
`)
	write(t, filepath.Join(dir, "go"), `#!/bin/sh
echo "go $* on $PENSTOCK_TEST_BACKEND" >>"$FAKES/calls"
echo "--- PASS: TestOne (1.50s)"
echo "    --- FAIL: TestTwo/part (2.00s)"
[ ! -e "$FAKES/fail-go" ]
`)
	return dir
}

// azure runs the script. It returns the script's output, its calls of az and go, and
// whether it succeeded.
func azure(t *testing.T, dir string, args ...string) (output, calls string, ok bool) {
	t.Helper()
	script := exec.CommandContext(t.Context(), azureScript, args...)
	script.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "FAKES="+dir, "TMPDIR="+dir,
		"PENSTOCK_TEST_MONGODB_URI=mongodb://test", "PENSTOCK_TEST_BACKEND=")
	out, err := script.CombinedOutput()
	noted, _ := os.ReadFile(filepath.Join(dir, "calls"))
	return string(out), string(noted), err == nil
}

var (
	groupMade    = regexp.MustCompile(`az group create --name (\S+)`)
	groupDeleted = regexp.MustCompile(`az group delete --name (\S+) --yes`)
)

// A dry run calls neither az nor go. It prints every command. The first command creates
// the group, and the last one deletes it.
func TestAzureScriptDryRun(t *testing.T) {
	t.Parallel()
	output, calls, ok := azure(t, fakes(t), "--dry-run", "--sku", "Premium")
	if !ok || calls != "" {
		t.Fatalf("a dry run fails or calls something: %s\n%s", calls, output)
	}
	made, deleted := groupMade.FindStringSubmatch(output), groupDeleted.FindStringSubmatch(output)
	if made == nil || deleted == nil || made[1] != deleted[1] {
		t.Errorf("the group %v is not the one that is deleted, %v:\n%s", made, deleted, output)
	}
	if !strings.Contains(output, "--sku Premium --capacity 1") {
		t.Errorf("a Premium namespace has no capacity:\n%s", output)
	}
}

// If any step fails, the script deletes the group, prints no key, and fails.
func TestAzureScriptDeletesTheGroupAfterAnyFailure(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fail string
		ok   bool
		says string
	}{
		"success":              {ok: true, says: "| TestOne | PASS | 1.50 |\n| TestTwo/part | FAIL | 2.00 |"},
		"tests fail":           {fail: "fail-go", says: "the tests failed: see "},
		"no namespace":         {fail: "fail-create", says: "deleting the resource group"},
		"group is not deleted": {fail: "fail-delete", says: "NOT DELETED, delete it yourself: az group delete --name penstock-test-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := fakes(t)
			if test.fail != "" {
				write(t, filepath.Join(dir, test.fail), "")
			}
			output, calls, ok := azure(t, dir, "--yes")
			if ok != test.ok || !strings.Contains(output, test.says) {
				t.Errorf("success is %v, want %v, and %q is to be said:\n%s", ok, test.ok, test.says, output)
			}
			made, deleted := groupMade.FindStringSubmatch(calls), groupDeleted.FindStringSubmatch(calls)
			if made == nil || deleted == nil || made[1] != deleted[1] {
				t.Errorf("the group is not deleted:\n%s", calls)
			}
			if test.fail != "fail-create" && !strings.Contains(calls, "./integration/e2e on external\n") {
				t.Errorf("the tests do not run on external servers:\n%s", calls)
			}
			if strings.Contains(output, "SECRET") {
				t.Errorf("a key is printed:\n%s", output)
			}
		})
	}
}

// Without the answer yes, the script creates nothing.
func TestAzureScriptCreatesNothingWithoutConfirmation(t *testing.T) {
	t.Parallel()
	if output, calls, ok := azure(t, fakes(t)); ok || groupMade.MatchString(calls) {
		t.Errorf("a group was made without a yes: %s\n%s", calls, output)
	}
}
