package aggregate

import (
	"math/rand/v2"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// sampling is a $sample: it keeps size random documents, each at most once, and returns
// them in random order.
type sampling struct {
	size, seen int64
	kept       [][]byte
}

// The error codes are those of MongoDB's document_source_sample.cpp.
func compileSample(spec bsonraw.Value) (stage, error) {
	if spec.Type != bsoncore.TypeEmbeddedDocument {
		return nil, mongoerr.New(28745, "the $sample stage specification must be an object")
	}
	s := &sampling{}
	given := false
	for it := bsonraw.NewIter(spec.Data); it.Next(); {
		if key := string(it.Key()); key != "size" {
			return nil, mongoerr.New(28748, "unrecognized option to $sample: %s", key)
		}
		var ok bool
		if s.size, ok = bsonraw.Int64(it.Value()); !ok {
			return nil, mongoerr.New(28746, "size argument to $sample must be a number")
		}
		if s.size < 1 {
			return nil, mongoerr.New(28747, "size argument to $sample must be a positive integer")
		}
		given = true
	}
	if !given {
		return nil, mongoerr.New(28749, "$sample stage must specify a size")
	}
	return s, nil
}

func (s *sampling) push(docs [][]byte) ([][]byte, bool, error) {
	for _, d := range docs {
		s.seen++
		if int64(len(s.kept)) < s.size {
			s.kept = append(s.kept, d)
		} else if at := rand.Int64N(s.seen); at < s.size {
			s.kept[at] = d
		}
	}
	return nil, false, nil
}

func (s *sampling) flush() ([][]byte, error) {
	rand.Shuffle(len(s.kept), func(i, j int) { s.kept[i], s.kept[j] = s.kept[j], s.kept[i] })
	kept := s.kept
	s.kept = nil
	return kept, nil
}
