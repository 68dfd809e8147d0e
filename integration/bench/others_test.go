package bench

import (
	"os/exec"
	"testing"
	"time"
)

func TestOthersExcludeThisProcessAndItsChildren(t *testing.T) {
	second := func(at, spent, own float64) processorTime {
		seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
		return processorTime{at: time.Unix(0, 0).Add(seconds(at)), spent: seconds(spent), own: seconds(own)}
	}
	before := second(100, 1000, 50)
	all := second(110, 1010, 50).others(before)
	half := second(110, 1010, 55).others(before)
	if all <= 0 || half < all/2-0.01 || half > all/2+0.01 {
		t.Errorf("10 s of other processes are %.1f %%, and 5 s are %.1f %%", all, half)
	}
	if got := second(110, 1010, 60.5).others(before); got != 0 {
		t.Errorf("more time of its own than the machine has counted is %.1f %% of others, want 0", got)
	}
	if got := before.others(before); got != 0 {
		t.Errorf("no time at all is %.1f %%", got)
	}
}

func TestTimeOfEndedChildrenIsOwnTime(t *testing.T) {
	before, err := readProcessorTime()
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
	after, err := readProcessorTime()
	if err != nil {
		t.Fatal(err)
	}
	if after.own <= before.own || after.spent < before.spent {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestRowWithTheMostCPUOfOthersIsNamed(t *testing.T) {
	r := &Report{Rows: []Row{{Name: "a", Others: []float64{1, 3}}, {Name: "b", Others: []float64{7, 0}}, {Name: "failed"}}}
	if percent, row := r.maxOthers(); percent != 7 || row != "b" {
		t.Errorf("%v in %s", percent, row)
	}
}
