package job_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// memory is a store in memory that uses the clock of the test. The tests in
// contract_test.go check that it behaves like the real one.
type memory struct {
	mu   sync.Mutex
	jobs map[string]*memoryJob
	// saves are the accepted saves, as "job/range: position".
	saves []string
	// searched counts the requests for active jobs, and asked the attempts to claim.
	searched, asked int
	// fails, if set, fails a call; it may block.
	fails func(ctx context.Context, call string) error
}

type memoryJob struct {
	job.Job
	leaseUntil time.Time
	ranges     []*memoryRange
}

type memoryRange struct{ job.Range }

func newMemory() *memory { return &memory{jobs: make(map[string]*memoryJob)} }

// expire ends every lease.
func (m *memory) expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range m.jobs {
		j.leaseUntil = time.Time{}
		for _, r := range j.ranges {
			r.LeaseUntil = time.Time{}
		}
	}
}

// begin locks the store, or returns the error that the test has set for the call.
func (m *memory) begin(ctx context.Context, call string) error {
	if m.fails != nil {
		if err := m.fails(ctx, call); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m.mu.Lock()
	return nil
}

func (m *memory) Create(_ context.Context, j job.Job) (job.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j.ID == "" {
		j.ID = fmt.Sprintf("%s-%d", j.Kind, len(m.jobs))
	}
	if old := m.jobs[j.ID]; old != nil {
		if old.Projection != j.Projection || old.Kind != j.Kind || old.Generation != j.Generation {
			return job.Job{}, job.ErrExists
		}
		return old.view(), nil
	}
	j.State, j.Created = job.Planning, time.Now()
	m.jobs[j.ID] = &memoryJob{Job: j}
	return j, nil
}

// view returns a copy with the sum of its ranges' counts.
func (j *memoryJob) view() job.Job {
	v := j.Job
	if v.State == job.Done || v.State == job.Cancelled {
		return v
	}
	v.Counts, v.RangesDone = map[string]int64{}, 0
	for _, r := range j.ranges {
		for name, n := range r.Counts {
			v.Counts[name] += n
		}
		if r.Done {
			v.RangesDone++
		}
		if v.Reason == "" {
			v.Reason = r.Reason
		}
	}
	return v
}

func (m *memory) Get(_ context.Context, id string) (job.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.jobs[id]; j != nil {
		return j.view(), nil
	}
	return job.Job{}, job.ErrNotFound
}

func (m *memory) Active(ctx context.Context, q job.Query) ([]job.Job, error) {
	if err := m.begin(ctx, "active"); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	m.searched++
	var active []job.Job
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		j := m.jobs[id]
		if (j.State == job.Planning || j.State == job.Running) && slices.Contains(q.Kinds, j.Kind) && id > q.After && (q.Only == "" || q.Only == id) && len(active) < q.Limit {
			active = append(active, j.Job)
		}
	}
	return active, nil
}

func (m *memory) Claim(ctx context.Context, of job.Job, holder string, lease time.Duration) (job.Claim, bool, error) {
	if err := m.begin(ctx, "claim"); err != nil {
		return job.Claim{}, false, err
	}
	defer m.mu.Unlock()
	m.asked++
	j := m.jobs[of.ID]
	if j == nil || j.State != of.State || j.State == job.Running && j.Epoch != of.Epoch {
		return job.Claim{}, false, nil
	}
	now := time.Now()
	if j.State == job.Planning {
		if j.leaseUntil.After(now) {
			return job.Claim{}, false, nil
		}
		j.Epoch, j.leaseUntil = j.Epoch+1, now.Add(lease)
		return job.Claim{Job: j.Job, Planning: true, Epoch: j.Epoch}, true, nil
	}
	for _, r := range j.ranges {
		if !r.Done && !r.LeaseUntil.After(now) {
			r.Epoch, r.LeaseUntil, r.Holder = r.Epoch+1, now.Add(lease), holder
			return job.Claim{Job: j.Job, Range: r.Range, Epoch: r.Epoch}, true, nil
		}
	}
	j.completeIfFinished()
	return job.Claim{}, false, nil
}

func (j *memoryJob) completeIfFinished() {
	if j.State == job.Running && !slices.ContainsFunc(j.ranges, func(r *memoryRange) bool { return !r.Done }) {
		j.end(job.Done, "")
	}
}

func (j *memoryJob) end(s job.State, reason string) {
	v := j.view()
	j.Counts, j.RangesDone, j.State, j.Reason, j.Finished = v.Counts, v.RangesDone, s, reason, time.Now()
}

// change runs do on the job and the range of a claim, if the claim holds.
func (m *memory) change(ctx context.Context, call string, c job.Claim, do func(j *memoryJob, r *memoryRange)) error {
	if err := m.begin(ctx, call); err != nil {
		return err
	}
	defer m.mu.Unlock()
	j := m.jobs[c.Job.ID]
	held := false
	if c.Planning {
		if held = j.State == job.Planning && j.Epoch == c.Epoch; held {
			do(j, nil)
		}
	} else if r := j.ranges[c.Range.Index]; j.Epoch == c.Job.Epoch && j.State != job.Cancelled && j.State != job.Done {
		if held = !r.Done && r.Epoch == c.Epoch; held {
			do(j, r)
		}
	}
	state := j.State
	if held && (call == "plan" || call == "fail") {
		return nil
	}
	switch {
	case state == job.Paused:
		return job.ErrPaused
	case state.Ended() && (call != "finish" || !held):
		return job.ErrCancelled
	case !held:
		return job.ErrLost
	}
	return nil
}

func (m *memory) Keep(ctx context.Context, c job.Claim, lease time.Duration) error {
	return m.change(ctx, "keep", c, func(j *memoryJob, r *memoryRange) {
		if c.Planning {
			j.leaseUntil = time.Now().Add(lease)
		} else {
			r.LeaseUntil = time.Now().Add(lease)
		}
	})
}

func (m *memory) Save(ctx context.Context, c job.Claim, position bson.Raw, counts map[string]int64, lease time.Duration) error {
	return m.change(ctx, "save", c, func(_ *memoryJob, r *memoryRange) {
		r.LeaseUntil, r.Counts, r.Attempts, r.Reason = time.Now().Add(lease), maps.Clone(counts), 0, ""
		if position != nil {
			r.Position = position
		}
		m.saves = append(m.saves, fmt.Sprintf("%s/%d: %s", c.Job.ID, c.Range.Index, position))
	})
}

func (m *memory) Plan(ctx context.Context, c job.Claim, bounds []job.Bounds, total int64) error {
	return m.change(ctx, "plan", c, func(j *memoryJob, _ *memoryRange) {
		j.ranges = nil
		for i, b := range bounds {
			j.ranges = append(j.ranges, &memoryRange{job.Range{Job: j.ID, Index: i, Bounds: b}})
		}
		j.State, j.Total, j.Ranges, j.Started, j.Reason, j.Planned = job.Running, total, len(bounds), time.Now(), "", true
		j.completeIfFinished()
	})
}

func (m *memory) Finish(ctx context.Context, c job.Claim, counts map[string]int64) error {
	return m.change(ctx, "finish", c, func(j *memoryJob, r *memoryRange) {
		r.Done, r.Counts, r.Reason = true, maps.Clone(counts), ""
		j.completeIfFinished()
	})
}

func (m *memory) Return(ctx context.Context, c job.Claim, delay time.Duration, failure error) error {
	return m.change(ctx, "return", c, func(j *memoryJob, r *memoryRange) {
		until := time.Now().Add(delay)
		if c.Planning {
			j.leaseUntil = until
			if failure != nil {
				j.Reason, j.Attempts = failure.Error(), j.Attempts+1
			}
			return
		}
		r.LeaseUntil, r.Holder, r.Epoch = until, "", r.Epoch+1
		if failure != nil {
			r.Reason, r.Attempts = failure.Error(), r.Attempts+1
		}
	})
}

func (m *memory) Fail(ctx context.Context, c job.Claim, reason error) error {
	return m.change(ctx, "fail", c, func(j *memoryJob, _ *memoryRange) {
		if j.State == job.Planning || j.State == job.Running {
			j.end(job.Failed, reason.Error())
		}
	})
}

// move changes a job's state. If the state is wanted, there is nothing to do.
func (m *memory) move(id string, from []job.State, wanted job.State, do func(j *memoryJob)) (job.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.jobs[id]
	switch {
	case j == nil:
		return job.Job{}, job.ErrNotFound
	case slices.Contains(from, j.State):
		do(j)
	case j.State != wanted:
		return j.view(), job.ErrState
	}
	return j.view(), nil
}

func (m *memory) Pause(_ context.Context, id, reason string) (job.Job, error) {
	return m.move(id, []job.State{job.Planning, job.Running}, job.Paused, func(j *memoryJob) { j.State, j.Reason = job.Paused, reason })
}

func (m *memory) Resume(_ context.Context, id string) (job.Job, error) {
	return m.move(id, []job.State{job.Paused, job.Failed}, job.Running, func(j *memoryJob) {
		j.State, j.Reason, j.Finished = job.Planning, "", time.Time{}
		if j.Planned {
			j.State = job.Running
		}
	})
}

func (m *memory) Cancel(_ context.Context, id, reason string) (job.Job, error) {
	return m.move(id, []job.State{job.Planning, job.Running, job.Paused, job.Failed}, job.Cancelled, func(j *memoryJob) { j.end(job.Cancelled, reason) })
}

func (m *memory) Supersede(ctx context.Context, projection string, kinds []job.Kind, keep, reason string) (int, error) {
	n := 0
	for id, j := range m.jobs {
		if j.Projection == projection && slices.Contains(kinds, j.Kind) && id != keep && !j.State.Ended() {
			if _, err := m.Cancel(ctx, id, reason); err == nil {
				n++
			}
		}
	}
	return n, nil
}

// savedBy counts the accepted saves of a job.
func (m *memory) savedBy(id string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, save := range m.saves {
		if strings.HasPrefix(save, id+"/") {
			n++
		}
	}
	return n
}
