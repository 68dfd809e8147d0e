package store

import "sort"

// scan reads the records of a plan. It keeps its position between calls of each, so that
// the lock can be released and the collection can change in between.
type scan struct {
	plan     Plan
	interval int // index into plan.intervals, in scan order
	started  bool
	key      string // last visited key of an index
	rid      uint64 // last visited record in natural order
	seen     map[uint64]struct{}
	done     bool
}

// each visits records from the current position until visit returns false.
func (s *scan) each(c *Collection, visit func(*Record) bool) {
	if s.done {
		return
	}
	if s.plan.Index == "" {
		s.natural(c, visit)
		return
	}
	x := c.index(s.plan.Index)
	if x == nil {
		s.done = true
		return
	}
	s.walk(c, x, visit)
}

func (s *scan) natural(c *Collection, visit func(*Record) bool) {
	it := c.records.Iter()
	var ok bool
	switch {
	case !s.plan.reverse && !s.started:
		ok = it.First()
	case !s.plan.reverse:
		ok = it.Seek(s.rid + 1)
	case !s.started:
		ok = it.Last()
	case it.Seek(s.rid):
		ok = it.Prev()
	default:
		ok = it.Last()
	}
	s.started = true
	for ok {
		s.rid = it.Key()
		if !visit(it.Value()) {
			return
		}
		if s.plan.reverse {
			ok = it.Prev()
		} else {
			ok = it.Next()
		}
	}
	s.done = true
}

func (s *scan) walk(c *Collection, x *Index, visit func(*Record) bool) {
	n := len(s.plan.intervals)
	for ; s.interval < n; s.interval, s.started = s.interval+1, false {
		v := s.plan.intervals[s.interval]
		if s.plan.reverse {
			v = s.plan.intervals[n-1-s.interval]
		}
		if v.hi != "" && !s.started {
			if rid, ok := single(x, v); ok {
				s.started = true
				if rid != 0 && !s.visit(c, x, rid, visit) {
					s.interval, s.started = s.interval+1, false
					return
				}
				continue
			}
		}
		if !s.interval1(c, x, v, visit) {
			return
		}
	}
	s.done = true
}

// single looks up an interval that contains exactly one key of a unique index, without an
// iterator. rid is 0 if the key does not exist. ok is false for other intervals.
func single(x *Index, v interval) (rid uint64, ok bool) {
	if !x.Unique || x.Multikey || len(x.Parts) != 1 || v.hi != successor(v.lo) {
		return 0, false
	}
	if len(v.lo) < 2 {
		return 0, false // the interval of all values of one type
	}
	rid, _ = x.tree.Get(v.lo)
	return rid, true
}

func (s *scan) interval1(c *Collection, x *Index, v interval, visit func(*Record) bool) bool {
	it := x.tree.Iter()
	var ok bool
	switch {
	case !s.plan.reverse && !s.started:
		ok = it.Seek(v.lo)
	case !s.plan.reverse:
		if ok = it.Seek(s.key); ok && it.Key() == s.key {
			ok = it.Next()
		}
	default:
		end := v.hi
		if s.started {
			end = s.key
		}
		if end != "" && it.Seek(end) {
			ok = it.Prev()
		} else {
			ok = it.Last()
		}
	}
	s.started = true
	for ok {
		key := it.Key()
		if !s.plan.reverse && v.hi != "" && key >= v.hi || s.plan.reverse && key < v.lo {
			break
		}
		s.key = key
		if !s.visit(c, x, it.Value(), visit) {
			return false
		}
		if s.plan.reverse {
			ok = it.Prev()
		} else {
			ok = it.Next()
		}
	}
	return true
}

func (s *scan) visit(c *Collection, x *Index, rid uint64, visit func(*Record) bool) bool {
	if x.Multikey {
		if s.seen == nil {
			s.seen = map[uint64]struct{}{}
		}
		if _, twice := s.seen[rid]; twice {
			return true
		}
		s.seen[rid] = struct{}{}
	}
	r, ok := c.records.Get(rid)
	if !ok {
		return true
	}
	return visit(r)
}

// sortedNames sorts names for listings.
func sortedNames(names []string) []string {
	sort.Strings(names)
	return names
}
