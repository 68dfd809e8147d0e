package oplog_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
)

func at(n uint32) bson.Timestamp { return bson.Timestamp{T: n, I: 1} }

func TestSeekAndRead(t *testing.T) {
	t.Parallel()
	l := oplog.New(oplog.Limits{Entries: 4})
	l.Append(&oplog.Entry{TS: at(1), First: true})
	if p, err := l.Seek(bson.Timestamp{}); err != nil || p != 0 {
		t.Errorf("before a complete log: %d, %v", p, err)
	}
	for n := uint32(2); n <= 10; n++ {
		l.Append(&oplog.Entry{TS: at(n)})
	}
	into := make([]*oplog.Entry, 10)
	for want, ts := range map[uint64]bson.Timestamp{6: at(7), 9: at(10), 10: at(11)} {
		if p, err := l.Seek(ts); err != nil || p != want {
			t.Errorf("seek %v: %d, %v, want %d", ts, p, err, want)
		}
	}
	if _, err := l.Seek(at(6)); !errors.Is(err, oplog.ErrLost) {
		t.Errorf("seek before the log: %v", err)
	}
	if _, err := l.Read(5, into); !errors.Is(err, oplog.ErrLost) {
		t.Errorf("read before the log: %v", err)
	}
	if n, err := l.Read(8, into); err != nil || n != 2 || into[0].TS != at(9) {
		t.Errorf("%d, %v", n, err)
	}
	if l.End() != 10 || l.Newest() != at(10) || l.Stats().Entries != 4 {
		t.Errorf("end %d, newest %v, %+v", l.End(), l.Newest(), l.Stats())
	}
	l.Truncate(0)
	if l.Stats().Entries != 1 || l.End() != 10 {
		t.Errorf("%+v, end %d", l.Stats(), l.End())
	}
}

// The entries of a transaction have one cluster time. Either all of them are in the log,
// or a position at that time is lost.
func TestTransactionsStayWhole(t *testing.T) {
	t.Parallel()
	transaction := func(n uint32) []*oplog.Entry {
		return []*oplog.Entry{{TS: at(n)}, {TS: at(n), Index: 1}, {TS: at(n), Index: 2}}
	}
	for name, shorten := range map[string]func(*oplog.Log){
		"bounds":   func(l *oplog.Log) { l.Append(&oplog.Entry{TS: at(4)}) },
		"truncate": func(l *oplog.Log) { l.Truncate(5) },
	} {
		l := oplog.New(oplog.Limits{Entries: 6})
		l.Append(transaction(2)...)
		l.Append(transaction(3)...)
		shorten(l)
		if _, err := l.Seek(at(2)); !errors.Is(err, oplog.ErrLost) {
			t.Errorf("%s: seek a transaction of which a part is lost: %v", name, err)
		}
		into := make([]*oplog.Entry, 3)
		p, err := l.Seek(at(3))
		if n, lost := l.Read(p, into); err != nil || lost != nil || n != 3 || into[0].Index != 0 || into[2].Index != 2 {
			t.Errorf("%s: the next transaction has %d entries (%v, %v)", name, n, err, lost)
		}
		l.Truncate(0)
		if kept := l.Stats().Entries; kept != len(l.All()) || kept > 3 {
			t.Errorf("%s: %d entries are kept", name, kept)
		}
	}
}

// After any sequence of appends and truncations, the log is within its bounds and its
// positions still name the same entries.
func TestBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits := oplog.Limits{Entries: rapid.IntRange(0, 2000).Draw(t, "entries"), Bytes: rapid.Int64Range(0, 300_000).Draw(t, "bytes")}
		l := oplog.New(limits)
		appended := uint32(0)
		for range rapid.IntRange(1, 40).Draw(t, "rounds") {
			var batch []*oplog.Entry
			for range rapid.IntRange(1, 200).Draw(t, "batch") {
				appended++
				batch = append(batch, &oplog.Entry{TS: at(appended), Doc: make([]byte, rapid.SampledFrom([]int{0, 10, 1000}).Draw(t, "size"))})
			}
			l.Append(batch...)
			if rapid.IntRange(0, 9).Draw(t, "truncate") == 0 {
				l.Truncate(rapid.IntRange(0, 100).Draw(t, "keep"))
			}
			s := l.Stats()
			if s.Entries < 1 || limits.Entries > 0 && s.Entries > limits.Entries || limits.Bytes > 0 && s.Bytes > limits.Bytes && s.Entries > 1 {
				t.Fatalf("%+v", s)
			}
			if l.End() != uint64(appended) {
				t.Fatalf("end %d after %d", l.End(), appended)
			}
			p := uint64(rapid.IntRange(0, int(appended)-1).Draw(t, "position"))
			into := make([]*oplog.Entry, 3)
			n, err := l.Read(p, into)
			switch lost := p < l.End()-uint64(s.Entries); {
			case lost != errors.Is(err, oplog.ErrLost):
				t.Fatalf("read %d of %d with %d kept: %v", p, appended, s.Entries, err)
			case !lost:
				for i, e := range into[:n] {
					if e.TS != at(uint32(p)+uint32(i)+1) {
						t.Fatalf("position %d holds %v", p+uint64(i), e.TS)
					}
				}
			}
		}
	})
}

func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := oplog.New(oplog.Limits{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if l.Wait(ctx, nil, 0) {
			t.Error("an entry in an empty log")
		}
		results := make(chan bool, 3)
		stop := make(chan struct{})
		go func() { results <- l.Wait(t.Context(), nil, 0) }()
		go func() { results <- l.Wait(t.Context(), nil, 1) }()
		go func() { results <- l.Wait(t.Context(), stop, 5) }()
		synctest.Wait()
		l.Append(&oplog.Entry{TS: at(1)})
		if !<-results {
			t.Error("the first entry was not seen")
		}
		synctest.Wait()
		if len(results) != 0 {
			t.Error("Wait returned true without an entry")
		}
		l.Append(&oplog.Entry{TS: at(2)})
		if !<-results {
			t.Error("the second entry was not seen")
		}
		close(stop)
		if <-results {
			t.Error("an entry that is not there")
		}
	})
}
