package aggregate

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/projection"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// Source returns documents in batches until done.
type Source interface {
	Next(ctx context.Context, maxDocs, maxBytes int) (docs [][]byte, done bool, err error)
}

// Pipeline is a compiled pipeline. It can run once. Match, Order and Limit hold the
// leading stages, which the query on the collection applies; the other stages run over a
// source.
type Pipeline struct {
	Match  *query.Matcher
	Order  []store.KeyPart
	Limit  int64
	stages []stage
}

// stage transforms batches of documents. full reports that the stage needs no more input.
// flush is called once, after the last push, and returns the documents that the stage
// held back.
type stage interface {
	push(docs [][]byte) (out [][]byte, full bool, err error)
	flush() ([][]byte, error)
}

// Stages returns the stage documents of a pipeline array.
func Stages(pipeline bsonraw.Value) ([]bsonraw.Value, error) {
	if pipeline.Type != bsoncore.TypeArray {
		return nil, mongoerr.New(mongoerr.TypeMismatch, "'pipeline' option must be specified as an array")
	}
	stages := bsonraw.Elements(pipeline.Data)
	for _, s := range stages {
		if s.Type != bsoncore.TypeEmbeddedDocument {
			return nil, mongoerr.New(mongoerr.TypeMismatch, "Each element of the 'pipeline' array must be an object")
		}
		if bsonraw.Len(s.Data) != 1 {
			return nil, mongoerr.New(40323, "A pipeline stage specification object must contain exactly one field.")
		}
	}
	return stages, nil
}

// Name returns a stage's name and its operand.
func Name(stage bsonraw.Value) (name string, spec bsonraw.Value) {
	it := bsonraw.NewIter(stage.Data)
	it.Next()
	return string(it.Key()), it.Value()
}

// Compile compiles a pipeline's stages.
func Compile(stages []bsonraw.Value, vars expr.Vars) (*Pipeline, error) {
	p := &Pipeline{}
	var err error
	if p.Match, err = query.Compile(bsonraw.NewBuilder(8).Bytes(), vars); err != nil {
		return nil, err
	}
	leading := true
	for i, s := range stages {
		name, spec := Name(s)
		if leading {
			if leading, err = p.lead(i, name, spec, vars); err != nil {
				return nil, err
			}
			if leading {
				continue
			}
		}
		st, err := compileStage(name, spec, vars)
		if err != nil {
			return nil, err
		}
		p.stages = append(p.stages, st)
	}
	return p, nil
}

// lead moves the stages at the start of the pipeline into the query on the collection: at
// most a $match, then a $sort, then a $limit. It reports whether it took the stage.
func (p *Pipeline) lead(i int, name string, spec bsonraw.Value, vars expr.Vars) (bool, error) {
	switch {
	case name == "$match" && i == 0 && spec.Type == bsoncore.TypeEmbeddedDocument:
		m, err := query.Compile(spec.Data, vars)
		p.Match = m
		return true, err
	case name == "$sort" && p.Order == nil && p.Limit == 0 && spec.Type == bsoncore.TypeEmbeddedDocument && !bsonraw.Empty(spec.Data):
		order, natural, err := store.ParseSort(spec.Data)
		p.Order = order
		if err == nil && natural != 0 {
			err = mongoerr.Lacking("$natural in $sort")
		}
		return true, err
	case name == "$limit" && p.Limit == 0:
		n, err := count("$limit", spec, 1)
		p.Limit = n
		return true, err
	}
	return false, nil
}

// Run returns a source of the documents that source yields after all stages.
func (p *Pipeline) Run(source Source) Source {
	if len(p.stages) == 0 {
		return source
	}
	return &run{source: source, stages: p.stages}
}

type run struct {
	source Source
	stages []stage
	ready  [][]byte
	ended  bool
}

// pull is the number of documents requested from the source at a time.
const pull = 1024

func (r *run) Next(ctx context.Context, maxDocs, maxBytes int) (docs [][]byte, done bool, err error) {
	for len(r.ready) < max(maxDocs, 1) && !r.ended {
		if err := r.step(ctx); err != nil {
			return nil, false, err
		}
	}
	size := 0
	for len(r.ready) > 0 && (maxDocs == 0 || len(docs) < maxDocs) {
		if len(docs) > 0 && size+len(r.ready[0]) > maxBytes {
			return docs, false, nil
		}
		docs = append(docs, r.ready[0])
		size += len(r.ready[0])
		r.ready = r.ready[1:]
	}
	return docs, r.ended && len(r.ready) == 0, nil
}

func (r *run) step(ctx context.Context) error {
	docs, done, err := r.source.Next(ctx, pull, 16<<20)
	if err != nil {
		return err
	}
	for _, s := range r.stages {
		var full bool
		if docs, full, err = s.push(docs); err != nil {
			return err
		}
		if full {
			done = true
		}
		if !done {
			continue
		}
		// No more input reaches this stage. Its held-back documents follow the ones it
		// has already returned. The next stages then end too.
		tail, err := s.flush()
		if err != nil {
			return err
		}
		docs = append(docs, tail...)
	}
	r.ready = append(r.ready, docs...)
	r.ended = done
	return nil
}

func compileStage(name string, spec bsonraw.Value, vars expr.Vars) (stage, error) {
	if t, ok, err := projection.CompileStage(name, spec); ok || err != nil {
		return &transforming{t: t, vars: vars}, err
	}
	switch name {
	case "$match":
		if spec.Type != bsoncore.TypeEmbeddedDocument {
			return nil, mongoerr.New(15959, "the match filter must be an expression in an object")
		}
		m, err := query.Compile(spec.Data, vars)
		return &matching{m: m}, err
	case "$sort":
		if spec.Type != bsoncore.TypeEmbeddedDocument || bsonraw.Empty(spec.Data) {
			return nil, mongoerr.New(15976, "$sort stage must have at least one sort key")
		}
		order, _, err := store.ParseSort(spec.Data)
		return &sorting{order: order, by: vars.Collation}, err
	case "$limit":
		n, err := count(name, spec, 1)
		return &limiting{left: n}, err
	case "$skip":
		n, err := count(name, spec, 0)
		return &skipping{left: n}, err
	case "$sample":
		return compileSample(spec)
	case "$group":
		return compileGroup(spec, vars)
	case "$changeStream":
		return nil, mongoerr.New(40602, "$changeStream is only valid as the first stage in a pipeline.")
	case "$bucket", "$bucketAuto", "$collStats", "$count", "$densify", "$documents", "$facet", "$fill", "$geoNear",
		"$graphLookup", "$indexStats", "$lookup", "$merge", "$out", "$planCacheStats", "$redact",
		"$search", "$setWindowFields", "$sortByCount", "$unionWith", "$unwind", "$currentOp", "$listSessions", "$listLocalSessions":
		return nil, mongoerr.Lacking("the aggregation stage %s", name)
	}
	return nil, mongoerr.New(40324, "Unrecognized pipeline stage name: '%s'", name)
}

func count(stage string, spec bsonraw.Value, least int64) (int64, error) {
	n, ok := bsonraw.Int64(spec)
	if !ok || n < least {
		return 0, mongoerr.New(5107201, "invalid argument to %s stage: Expected a number of at least %d in: %s: %s", stage, least, stage, bsonraw.Format(spec))
	}
	return n, nil
}
