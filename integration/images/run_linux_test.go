package images_test

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/proc"
)

// timeout is the timeout for anything that a program does without delay.
const timeout = 90 * time.Second

// clocks converts the event's time to a zone whose offset, 5 h 45 min ahead, is only in a
// time zone file.
const clocks = `projections:
  - name: clocks
    collection: clocks
    aggregateType: Clock
    on:
      ClockReadEvent:
        set: {hour: timestamp.getHours('Asia/Kathmandu'), minute: timestamp.getMinutes('Asia/Kathmandu')}
`

// clocksTest tests clocks.
const clocksTest = `tests:
  - name: a clock shows the time of the zone
    aggregateId: tower
    given:
      - {eventType: ClockReadEvent, timestamp: 2026-01-15T12:00:00Z}
    expect:
      clocks:
        tower: {hour: 17, minute: 45}
`

func TestProgramPrintsItsHelpAndVersion(t *testing.T) {
	for _, service := range services {
		t.Run(service, func(t *testing.T) {
			c := newContainer(t, service)
			if code, says := c.run(t, nil, "--help"); code != 0 || !strings.Contains(says, "MONGODB_URI") {
				t.Errorf("help exits %d and says %s", code, says)
			}
			if code, says := c.run(t, nil); code != 2 || !strings.Contains(says, "MONGODB_URI") {
				t.Errorf("a missing configuration exits %d and says %s", code, says)
			}
			_, index := openArchive(t, archivePath(t, service)).images(t)
			version := service + " " + chartVersion(t) + " (" + index.Annotations[labels+"revision"][:12]
			if code, says := c.run(t, nil, "--version"); code != 0 || !strings.HasPrefix(says, version) {
				t.Errorf("the version exits %d and says %s, not %s", code, says, version)
			}
		})
	}
}

func TestStandInsServeAnyAddress(t *testing.T) {
	for _, program := range standIns {
		t.Run(program, func(t *testing.T) {
			c := newContainer(t, program)
			if code, says := c.run(t, nil, "--version"); code != 0 || says != program+" "+chartVersion(t)+"\n" {
				t.Errorf("the version exits %d and says %s", code, says)
			}
			log := c.start(t, []string{strings.ToUpper(program) + "_ADDRESS=:0"})
			await(t, "the connection string", func() bool { return contains(t, log, "\n") })
			text := string(read(t, log))
			port := regexp.MustCompile(`(?:127\.0\.0\.1|localhost|\[::\]|0\.0\.0\.0):(\d+)`).FindStringSubmatch(text)
			if port == nil {
				t.Fatalf("it prints %s", text)
			}
			conn, err := (&net.Dialer{Timeout: timeout}).DialContext(t.Context(), "tcp", "127.0.0.1:"+port[1])
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
		})
	}
}

// The chart's init container runs check in this way. The image has no time zone files, and test
// needs one.
func TestProjectionsAreCheckedAndTestedInTheImage(t *testing.T) {
	c := newContainer(t, "projector")
	env := []string{
		"MONGODB_URI=mongodb://nowhere.invalid/?replicaSet=rs0",
		"AZURE_SERVICEBUS_NAMESPACE=nowhere.servicebus.windows.net",
		"AZURE_SERVICEBUS_TOPIC_NAME=events", "AZURE_SERVICEBUS_SUBSCRIPTION_NAME=projector",
		"PENSTOCK_PROJECTIONS=/etc/penstock/projections/clocks.yaml",
	}
	c.write(t, "etc/penstock/projections/clocks_test.yaml", clocksTest, 0o444)
	for projections, want := range map[string]int{clocks: 0, strings.Replace(clocks, "timestamp.", "nobody.", 1): 2} {
		c.write(t, "etc/penstock/projections/clocks.yaml", projections, 0o444)
		for _, command := range [][]string{{"check"}, {"test", "/etc/penstock/projections"}} {
			if code, says := c.run(t, env, command...); code != want {
				t.Errorf("%s exits %d, not %d, and says %s", command[0], code, want, says)
			}
		}
	}
}

// await polls until the condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, fmt.Errorf("not within %s", timeout))
	defer cancel()
	if err := proc.Await(ctx, 50*time.Millisecond, what, func() (bool, error) { return holds(), nil }); err != nil {
		t.Fatal(err)
	}
}
