package app

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/reconcile"
)

// A sweep of a replaced generation would never end, and the sweeps of one projection would
// accumulate. So a new sweep ends the older ones of its projection, and no other job.
// Starting it again changes nothing.
func TestNewSweepSupersedesOlderSweepsOfItsProjection(t *testing.T) {
	t.Parallel()
	database := server.Database(t)
	jobs := job.NewStore(database, job.Options{})
	if err := job.Prepare(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	s := sweeps{jobs: jobs, who: "test", grace: 30 * time.Second}
	for _, j := range []job.Job{
		{ID: "build", Kind: job.Build, Projection: "visits", Generation: 2},
		{ID: "verify", Kind: job.Verify, Projection: "visits", Generation: 1},
	} {
		if _, err := jobs.Create(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	for _, start := range []struct {
		id string
		of reconcile.Projection
	}{
		{"first", reconcile.Projection{Name: "visits", Generation: 1}},
		{"other", reconcile.Projection{Name: "items", Generation: 1}},
		{"second", reconcile.Projection{Name: "visits", Generation: 2}},
		{"second", reconcile.Projection{Name: "visits", Generation: 2}},
	} {
		if err := s.Start(t.Context(), start.id, start.of); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]job.State{"first": job.Cancelled, "other": job.Planning, "second": job.Planning, "build": job.Planning, "verify": job.Planning} {
		if j, err := jobs.Get(t.Context(), id); err != nil || j.State != want {
			t.Errorf("job %s is %s (%s), %v; want %s", id, j.State, j.Reason, err, want)
		}
	}
	if p, err := s.Progress(t.Context(), "first"); err != nil || !p.Ended || !p.Failed {
		t.Errorf("the progress of the superseded sweep is %+v, %v", p, err)
	}
	if p, err := s.Progress(t.Context(), "nobody"); err != nil || !p.Unknown {
		t.Errorf("the progress of no sweep is %+v, %v", p, err)
	}
}

// A sweep is a verification that repairs on request.
func TestSweepOfContentRepairs(t *testing.T) {
	t.Parallel()
	jobs := job.NewStore(server.Database(t), job.Options{})
	for id, test := range map[string]struct {
		content bool
		want    history.VerifyParams
	}{
		"watermarks": {false, history.VerifyParams{GraceMillis: 30_000}},
		"content":    {true, history.VerifyParams{GraceMillis: 30_000, Repair: true}},
	} {
		s := sweeps{jobs: jobs, who: "test", grace: 30 * time.Second, content: test.content}
		if err := s.Start(t.Context(), id, reconcile.Projection{Name: id, Generation: 1}); err != nil {
			t.Fatal(err)
		}
		j, err := jobs.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		var params history.VerifyParams
		if err := bson.Unmarshal(j.Params, &params); err != nil || params != test.want || j.Kind != job.Reconcile {
			t.Errorf("%s: a job of kind %s with %+v, %v", id, j.Kind, params, err)
		}
	}
}

// Nothing sweeps the projection of a paused sweep until somebody resumes the job.
func TestPausedSweepIsAConditionOfHealth(t *testing.T) {
	t.Parallel()
	database := server.Database(t)
	jobs := job.NewStore(database, job.Options{})
	if err := job.Prepare(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	s := sweeps{jobs: jobs, who: "test", grace: time.Second}
	if err := s.Start(t.Context(), "sweep-1", reconcile.Projection{Name: "visits", Generation: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Pause(t.Context(), "sweep-1", "by ann: too much load"); err != nil {
		t.Fatal(err)
	}
	want := `the job is paused by ann: too much load; "projector jobs resume sweep-1" continues it`
	if _, err := s.Progress(t.Context(), "sweep-1"); err == nil || err.Error() != want {
		t.Errorf("the progress of the paused sweep fails with %v, want %s", err, want)
	}
	if _, err := jobs.Resume(t.Context(), "sweep-1"); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Progress(t.Context(), "sweep-1"); err != nil || p.Ended {
		t.Errorf("the progress of the resumed sweep is %+v, %v", p, err)
	}
}

// The setting may change while a sweep runs, and two Deployments may have different ones.
// A sweep is worked on in the form in which it was started.
func TestSweepKeepsItsFormWhenTheSettingChanges(t *testing.T) {
	t.Parallel()
	jobs := job.NewStore(server.Database(t), job.Options{})
	for _, content := range []bool{false, true} {
		id := fmt.Sprint("content ", content)
		if err := (sweeps{jobs: jobs, who: "test", grace: time.Second, content: content}).Start(t.Context(), id, reconcile.Projection{Name: id, Generation: 1}); err != nil {
			t.Fatal(err)
		}
		j, err := jobs.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		var watermarks, contents recordingWorker
		w := sweepWorker{watermarks: &watermarks, content: &contents}
		if _, _, err := w.Plan(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		if err := w.Work(t.Context(), j, job.Range{}, nil); err != nil {
			t.Fatal(err)
		}
		if want := map[bool][2]recordingWorker{false: {2, 0}, true: {0, 2}}[content]; [2]recordingWorker{watermarks, contents} != want {
			t.Errorf("%s: %d calls compare watermarks, %d compare contents", id, watermarks, contents)
		}
	}
	if _, _, err := (sweepWorker{}).Plan(t.Context(), job.Job{ID: "broken", Params: bson.Raw{1}}); err == nil {
		t.Error("parameters that cannot be read are accepted")
	}
}

// recordingWorker counts its calls.
type recordingWorker int

func (w *recordingWorker) Plan(context.Context, job.Job) ([]job.Bounds, int64, error) {
	*w++
	return nil, 0, nil
}

func (w *recordingWorker) Work(context.Context, job.Job, job.Range, job.Progress) error {
	*w++
	return nil
}
