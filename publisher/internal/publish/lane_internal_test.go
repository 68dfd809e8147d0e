package publish

import "testing"

// TestSetbackLastsUntilTheFailingEventIsSettled quarantines the second event of a lane
// whose first event fails.
func TestSetbackLastsUntilTheFailingEventIsSettled(t *testing.T) {
	t.Parallel()
	l := lanes{byKey: make(map[string]*lane)}
	for range 3 {
		l.add("a", l.entry())
	}
	batch := l.take(nil, slotRegular, false, 2, 1)
	l.setback(l.byKey["a"]).failures = 7
	l.remove(batch[1:], false)
	if s := l.byKey["a"].setback; s == nil || s.failures != 7 {
		t.Errorf("the failures of the first event are forgotten: %+v", s)
	}
	l.remove(batch[:1], true)
	if s := l.byKey["a"].setback; s != nil || l.setbacks != 0 {
		t.Errorf("after the first event: %+v", s)
	}
}
