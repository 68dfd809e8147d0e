package projection

import (
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// ViewDeclaration describes a view in Go: a document for each key, made of parts of several
// aggregates.
type ViewDeclaration struct {
	// Name, Collection and Version are as in [Declaration].
	Name, Collection, Version string
	// Snapshots are as in [Declaration].
	Snapshots []string
	// Sources are the types of aggregates that have parts.
	Sources []ViewSource
	// Totals are the totals over all parts of a document, by name: sum, count, min, max or
	// set. There is no function over the parts of a document, because it could depend on
	// their order.
	Totals map[string]string
}

// ViewSource describes the parts of the aggregates of one type.
type ViewSource struct {
	AggregateType string
	// Apply folds the part of an aggregate. It can return nil for no part.
	Apply Func
	// Contribute returns to which documents a part contributes. It must be pure too.
	Contribute func(part State) ([]Contribution, error)
	// As is the field of a document that holds the part, or the elements of its
	// contributions, under the aggregate's id. If Fields is set, the document has the fields of
	// the part, or of the element. Without both it has only the totals.
	As     string
	Fields bool
}

// Contribution is what a part contributes to a document.
type Contribution struct {
	// Key is the _id of the document.
	Key string
	// Element is stored instead of the part, unless it is nil.
	Element any
	// Totals are what the part adds to totals, by name. A count takes no value but true.
	Totals map[string]any
}

// NewView makes a view of Go functions.
func NewView(d ViewDeclaration) (*Projection, error) {
	p := &Projection{name: d.Name, collection: d.Collection, view: &fold.View{}, snapshots: slices.Sorted(slices.Values(d.Snapshots))}
	problems := []error{checkName(d.Name), checkCollection(d.Collection), checkVersion(d.Version)}
	for _, name := range sortedKeys(d.Totals) {
		t := fold.Total{Name: name, Kind: fold.TotalKind(d.Totals[name])}
		if !slices.Contains(fold.TotalKinds, t.Kind) {
			problems = append(problems, fmt.Errorf("the total %s is %q, not one of sum, count, min, max and set", name, t.Kind))
		}
		problems = append(problems, documentField(name))
		p.view.Totals = append(p.view.Totals, t)
	}
	if len(d.Sources) == 0 {
		problems = append(problems, errors.New("it has no sources"))
	}
	var from []any
	for _, s := range d.Sources {
		switch {
		case s.AggregateType == "" || p.source(s.AggregateType) != nil:
			problems = append(problems, fmt.Errorf("the aggregate type %q of a source is empty, or that of another one", s.AggregateType))
		case s.Apply == nil:
			problems = append(problems, errNoApply)
		case s.Contribute == nil:
			problems = append(problems, errors.New("the function Contribute of a source is nil"))
		case s.As != "" && s.Fields:
			problems = append(problems, errors.New("a source has As or Fields, not both"))
		case p.view.HasTotal(s.As):
			problems = append(problems, fmt.Errorf("%s holds parts, so no total can have the name", s.As))
		}
		if s.As != "" {
			problems = append(problems, documentField(s.As))
			if !slices.Contains(p.view.As, s.As) {
				p.view.As = append(p.view.As, s.As)
			}
		}
		p.sources = append(p.sources, source{
			aggregateType: s.AggregateType, apply: s.Apply, contribute: s.Contribute, contribution: &contribution{as: s.As, fields: s.Fields, view: p.view},
		})
		from = append(from, map[string]any{"aggregateType": s.AggregateType, "as": s.As, "fields": s.Fields})
	}
	slices.Sort(p.view.As)
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("declare view %q: %w", d.Name, err)
	}
	p.definition = p.defineGo(map[string]any{"from": from, "totals": d.Totals, "version": d.Version})
	return p, nil
}

// contributed returns a part of a view in Go with the list of its documents.
func (p *Projection) contributed(from *source, part State) (State, error) {
	contributions, err := returned(func() ([]Contribution, error) { return from.contribute(part) })
	if err != nil {
		return nil, fmt.Errorf("contribute: %w", err)
	}
	if len(contributions) > maxDocuments {
		return nil, fmt.Errorf("contribute: a part contributes to at most %d documents, not to %d", maxDocuments, len(contributions))
	}
	start, dst := bsoncore.AppendDocumentStart(nil)
	for i := range contributions {
		c := &contributions[i]
		if err := checkDocumentKey(c.Key); err != nil {
			return nil, fmt.Errorf("contribute: %w", err)
		}
		element := bson.RawValue{}
		if c.Element != nil {
			if element, err = rawValue(c.Element); err == nil {
				err = checkCopy(element, 0)
			}
			if err != nil {
				return nil, fmt.Errorf("contribute: element: %w", err)
			}
		}
		at, next, err := from.contribution.begin(dst, i, c.Key, element)
		if err == nil {
			next, err = appendTotals(next, p.view, c.Totals)
		}
		if err != nil {
			return nil, fmt.Errorf("contribute to document %s: %w", c.Key, err)
		}
		dst = fold.FinishDocument(next, at)
	}
	documents := bson.RawValue{Type: bson.TypeArray, Value: fold.FinishDocument(dst, start)}
	return fold.ReplaceField(part, model.FieldDocuments, documents), nil
}

// appendTotals appends what a contribution of a view in Go adds to the totals.
func appendTotals(dst []byte, v *fold.View, totals map[string]any) ([]byte, error) {
	for name := range totals {
		if !v.HasTotal(name) {
			return dst, fmt.Errorf("the view has no total %s", name)
		}
	}
	start, dst := bsoncore.AppendDocumentElementStart(dst, fold.ContributedTotals)
	for _, t := range v.Totals {
		given, ok := totals[t.Name]
		if !ok || given == nil {
			continue
		}
		value := fold.IntegerValue(1)
		if t.Kind != fold.TotalCount {
			var err error
			if value, err = rawValue(given); err == nil {
				value, err = t.Kind.Admit(value)
			}
			if err != nil {
				return dst, fmt.Errorf("total %s: %w", t.Name, err)
			}
		} else if given != true {
			return dst, fmt.Errorf("total %s is a count: it takes true, not %v", t.Name, given)
		}
		dst = fold.AppendField(dst, t.Name, value)
	}
	return fold.FinishDocument(dst, start), nil
}

func rawValue(v any) (bson.RawValue, error) {
	t, data, err := bson.MarshalValue(v)
	return bson.RawValue{Type: t, Value: data}, err
}
