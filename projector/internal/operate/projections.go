package operate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// projectionsCommands are the commands about projections and their generations.
type projectionsCommands struct {
	List    projectionsListCommand    `cmd:"" help:"List the projections with their live generation and the one that is being built."`
	Show    projectionsShowCommand    `cmd:"" help:"Show everything about one projection: definitions, build, history, and the pods that write it."`
	Watch   projectionsWatchCommand   `cmd:"" help:"Follow a rebuild until its generation is live: each state, and a bar with the rate and the time left; with --until-live, wait until all declared definitions are live, for a pipeline of deployment. Exits with status 1 if a rebuild fails or is cancelled."`
	Rebuild projectionsRebuildCommand `cmd:"" help:"Build a new generation of a projection from the event store, beside the live one, also if the last build has failed. It takes the definition of PENSTOCK_PROJECTIONS if that is set and differs, otherwise the present one."`
	Cancel  projectionsCancelCommand  `cmd:"" help:"Cancel the build of a projection, also one that has failed. The live generation stays. The declared definition is not built until \"projector projections rebuild\" asks for it or another definition is declared."`
	Retire  projectionsRetireCommand  `cmd:"" help:"Retire a projection that no running projector declares, at once. Nothing writes its read model any more."`
	Drop    projectionsDropCommand    `cmd:"" help:"Delete the read model of a retired projection, or the collections that a projection has left behind."`
}

// projectionView is a projection as the commands print it.
type projectionView struct {
	Name     string `json:"name"`
	Pipeline string `json:"pipeline"`
	// ViewOf are the aggregate types of which a view makes its documents; none for another
	// projection.
	ViewOf []string `json:"viewOf,omitempty"`
	// State is the result of [catalog.Entry.Status].
	State     string           `json:"state"`
	Live      *liveView        `json:"live,omitempty"`
	Building  *buildView       `json:"building,omitempty"`
	GivenUp   *catalog.GivenUp `json:"givenUp,omitempty"`
	RetiredAt *time.Time       `json:"retiredAt,omitempty"`
	Left      []string         `json:"leftBehind,omitempty"`
	History   []catalog.Record `json:"history,omitempty"`
	Pods      []podView        `json:"pods,omitempty"`
	// collection is the one that readers use, or will use.
	collection string
}

type liveView struct {
	Generation int64     `json:"generation"`
	Hash       string    `json:"hash"`
	Definition string    `json:"definition,omitempty"`
	Collection string    `json:"collection"`
	Since      time.Time `json:"since"`
}

type buildView struct {
	Generation int64         `json:"generation"`
	Hash       string        `json:"hash"`
	Definition string        `json:"definition,omitempty"`
	Collection string        `json:"collection"`
	Shadow     string        `json:"shadow"`
	State      catalog.State `json:"state"`
	Reason     string        `json:"reason,omitempty"`
	// Position is that in the queue of the Builds builds in progress; 0 if it has failed.
	Position    int      `json:"position,omitempty"`
	Builds      int      `json:"builds,omitempty"`
	Jobs        []string `json:"jobs"`
	Parked      int64    `json:"parked"`
	AllowParked int64    `json:"allowParked"`
	// Missing is the number of live read models that have no events.
	Missing      int64     `json:"missing"`
	AllowMissing int64     `json:"allowMissing"`
	StartedAt    time.Time `json:"startedAt"`
	Who          string    `json:"who,omitempty"`
	Why          string    `json:"why,omitempty"`
}

// podView shows what a pod does for a projection.
type podView struct {
	Pod      string  `json:"pod"`
	Declares string  `json:"declares,omitempty"`
	Serves   []int64 `json:"serves"`
}

// viewProjection makes the view of an entry. With full, it includes the definitions and the
// history.
func viewProjection(e *catalog.Entry, full bool) projectionView {
	v := projectionView{Name: e.Name, Pipeline: e.Pipeline, State: e.Status(), RetiredAt: e.RetiredAt, GivenUp: e.GivenUp, collection: e.Definition().Collection}
	v.ViewOf = viewOf(e)
	if l := e.Live; l != nil {
		v.Live = &liveView{Generation: l.Generation, Hash: l.Hash, Collection: l.Collection, Since: l.Since}
	}
	if b := e.Building; b != nil {
		v.Building = &buildView{
			Generation: b.Generation, Hash: b.Hash, Collection: b.Collection, Shadow: b.Shadow, State: b.State, Reason: b.Reason,
			Jobs: []string{}, Parked: b.Parked, AllowParked: b.Allowed.Parked, Missing: b.Archived, AllowMissing: b.Allowed.Archived, StartedAt: b.StartedAt, Who: b.Who, Why: b.Why,
		}
		for _, id := range []string{b.Jobs.Build, b.Jobs.Sweep, b.Jobs.Verify} {
			if id != "" {
				v.Building.Jobs = append(v.Building.Jobs, id)
			}
		}
	}
	for _, l := range e.Left {
		v.Left = append(v.Left, l.Collection)
	}
	if full {
		v.History = e.History
		if v.Live != nil {
			v.Live.Definition = e.Live.Text
		}
		if v.Building != nil {
			v.Building.Definition = e.Building.Text
		}
	}
	return v
}

// viewOf returns the aggregate types of a view: of its live definition, or of the one that is
// being built.
func viewOf(e *catalog.Entry) (types []string) {
	// A definition of a later version that cannot be read is shown as it is.
	if scope, err := projection.ScopeOf(e.Definition().Text); err == nil && scope.View {
		for _, from := range scope.Sources {
			types = append(types, from.AggregateType)
		}
	}
	return types
}

type projectionsListCommand struct {
	cli.Output
}

func (c *projectionsListCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	found, err := s.entries(ctx)
	if err != nil {
		return err
	}
	var views []projectionView
	queue := catalog.Queue(found)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		view := viewProjection(found[name], false)
		if i := slices.Index(queue, name); i >= 0 {
			view.Building.Position, view.Building.Builds = i+1, len(queue)
		}
		views = append(views, view)
	}
	if len(views) == 0 {
		fmt.Fprintln(e.stderr, "no projections")
	}
	return cli.List(e.stdout, c.Output, views, func(p projectionView) []cli.Field {
		live, building := "", ""
		if p.Live != nil {
			live = fmt.Sprintf("%d (%s)", p.Live.Generation, p.Live.Hash)
		}
		if p.Building != nil {
			building = fmt.Sprintf("%d (%s)", p.Building.Generation, p.Building.Hash)
		}
		return []cli.Field{
			{Name: "name", Text: p.Name},
			{Name: "state", Text: p.State},
			{Name: "live", Text: live},
			{Name: "building", Text: building},
			{Name: "collection", Text: p.collection},
			{Name: "view of", Text: strings.Join(p.ViewOf, ", ")},
			{Name: "left behind", Text: strings.Join(p.Left, ", ")},
			{Name: "reason", Text: reasonOf(p)},
		}
	})
}

// reasonOf returns why a declared definition is not live.
func reasonOf(p projectionView) string {
	switch b := p.Building; {
	case b != nil && b.Position == 0:
		return b.Reason
	case b != nil:
		last := "a projector that serves the generation"
		if n := len(b.Jobs); n > 0 {
			last = "job " + b.Jobs[n-1]
		}
		return fmt.Sprintf("%s (build %d of %d)", cmp.Or(b.Reason, "waits for "+last), b.Position, b.Builds)
	case p.GivenUp != nil:
		return p.GivenUp.String()
	}
	return ""
}

// projectionName is the argument of the commands about one projection.
type projectionName struct {
	Name string `arg:"" help:"The projection."`
}

// entry reads the projection's entry of the catalog.
func (n projectionName) entry(ctx context.Context, s *stored) (*catalog.Entry, error) {
	found, err := s.entries(ctx)
	if err != nil {
		return nil, err
	}
	return n.among(found, s)
}

// among returns the projection's entry of those that the catalog has.
func (n projectionName) among(found map[string]*catalog.Entry, s *stored) (*catalog.Entry, error) {
	if e := found[n.Name]; e != nil {
		return e, e.Unreadable
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there is no projection %q: the catalog in database %s (PENSTOCK_STATE_DATABASE) is empty", n.Name, s.State.Name())
	}
	return nil, fmt.Errorf("there is no projection %q: the catalog has %s", n.Name, strings.Join(slices.Sorted(maps.Keys(found)), ", "))
}

type projectionsShowCommand struct {
	projectionName
	cli.Output
}

func (c *projectionsShowCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	entry, err := c.entry(ctx, s)
	if err != nil {
		return err
	}
	view := viewProjection(entry, true)
	alive, err := s.alive(ctx, entry.Pipeline)
	if err != nil {
		return err
	}
	view.Pods = podsOf(entry.Name, alive)
	return cli.Show(e.stdout, c.Output, view, projectionFields(view))
}

// podsOf returns the pods that declare or write a projection.
func podsOf(name string, alive []catalog.Registration) []podView {
	var pods []podView
	for _, r := range alive {
		pod := podView{Pod: r.Pod, Serves: []int64{}}
		for _, d := range r.Declares {
			if d.Projection == name {
				pod.Declares = d.Hash
			}
		}
		for _, s := range r.Serves {
			if s.Projection == name {
				pod.Serves = append(pod.Serves, s.Generation)
			}
		}
		if pod.Declares != "" || len(pod.Serves) > 0 {
			pods = append(pods, pod)
		}
	}
	return pods
}

// projectionFields returns the printed lines of one projection.
func projectionFields(view projectionView) []cli.Field {
	var fields []cli.Field
	add := func(name, text string) { fields = append(fields, cli.Field{Name: name, Text: text}) }
	add("name", view.Name)
	add("view of", strings.Join(view.ViewOf, ", "))
	add("state", view.State)
	add("retired at", optionalTime(view.RetiredAt))
	if l := view.Live; l != nil {
		add("live generation", fmt.Sprintf("%d, definition %s, in collection %s since %s", l.Generation, l.Hash, l.Collection, cli.Time(l.Since)))
	}
	if b := view.Building; b != nil {
		add("building generation", fmt.Sprintf("%d, definition %s, in collection %s since %s", b.Generation, b.Hash, b.Shadow, cli.Time(b.StartedAt)))
		add("reason", b.Reason)
		add("parked aggregates", fmt.Sprintf("%d, of which %d are allowed", b.Parked, b.AllowParked))
		add("live read models without events", fmt.Sprintf("%d, of which %d are allowed", b.Missing, b.AllowMissing))
		add("jobs", strings.Join(b.Jobs, ", "))
	}
	if g := view.GivenUp; g != nil {
		add("not built", g.String())
	}
	add("collections left behind", strings.Join(view.Left, ", "))
	for _, p := range view.Pods {
		add("pod", fmt.Sprintf("%s, declares %s, writes generations %v", p.Pod, cmp.Or(p.Declares, "none"), p.Serves))
	}
	for _, r := range view.History {
		text := fmt.Sprintf("%s: generation %d (%s) %s", cli.Time(r.At), r.Generation, r.Hash, r.What)
		if r.Who != "" {
			text += " by " + r.Who
		}
		if r.Why != "" {
			text += ": " + r.Why
		}
		add("history", text)
	}
	if view.Live != nil {
		add("live definition", view.Live.Definition)
	}
	if view.Building != nil {
		add("building definition", view.Building.Definition)
	}
	return fields
}
