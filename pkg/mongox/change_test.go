package mongox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
)

var (
	done     = bson.D{{Key: "ok", Value: 1}}
	exceeded = bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 50}, {Key: "errmsg", Value: "operation exceeded time limit"}}
	// slowMajority is the reply to a change that took effect, and that the majority did not
	// confirm in time.
	slowMajority = bson.D{{Key: "ok", Value: 1}, {Key: "writeConcernError", Value: bson.D{{Key: "code", Value: 50}, {Key: "errmsg", Value: "operation was interrupted"}}}}
	exists       = bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 48}, {Key: "errmsg", Value: "collection already exists"}}
)

func TestChangeIsBoundedAndConfirmedByAMajority(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(s *mongotest.Replies) error{
		`{"create":"c","capped":false,"maxTimeMS":1000,"writeConcern":{"w":"majority"}}`: func(s *mongotest.Replies) error {
			return mongox.CreateCollection(t.Context(), s.Client.Database("d"), "c", bson.E{Key: "capped", Value: false})
		},
		`{"drop":"c","maxTimeMS":1000,"writeConcern":{"w":"majority"}}`: func(s *mongotest.Replies) error {
			return mongox.DropCollection(t.Context(), s.Client.Database("d"), "c")
		},
		`{"createIndexes":"c","indexes":[{"key":{"a":1,"b":-1},"name":"a_1_b_-1","sparse":true}],"maxTimeMS":1000,"writeConcern":{"w":"majority"}}`: func(s *mongotest.Replies) error {
			return mongox.CreateIndex(t.Context(), s.Client.Database("d").Collection("c"), bson.D{{Key: "a", Value: 1}, {Key: "b", Value: -1}}, bson.E{Key: "sparse", Value: true})
		},
		`{"renameCollection":"d.c","to":"d.e","maxTimeMS":1000,"writeConcern":{"w":"majority"}}`: func(s *mongotest.Replies) error {
			// A deadline must not add a second limit.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return mongox.Change(ctx, s.Client.Database("admin"), bson.D{{Key: "renameCollection", Value: "d.c"}, {Key: "to", Value: "d.e"}})
		},
	} {
		replies := []bson.D{done}
		if strings.HasPrefix(name, `{"create":`) {
			replies = []bson.D{listed(), done}
		}
		s := mongotest.NewReplies(t, replies...)
		if err := do(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if sent := s.Command(t, len(replies)-1); sent != name {
			t.Errorf("the command is %s, want %s", sent, name)
		}
	}
}

// listed is the reply to listCollections.
func listed(names ...string) bson.D {
	batch := bson.A{}
	for _, name := range names {
		batch = append(batch, bson.D{{Key: "name", Value: name}, {Key: "type", Value: "collection"}})
	}
	return bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "d.$cmd.listCollections"}, {Key: "firstBatch", Value: batch}}}}
}

func TestNoCreateIsSentForACollectionThatExists(t *testing.T) {
	t.Parallel()
	s := mongotest.NewReplies(t, listed("c"))
	if err := mongox.CreateCollection(t.Context(), s.Client.Database("d"), "c"); err != nil || s.Commands() != 1 {
		t.Errorf("%d commands: %v", s.Commands(), err)
	}
}

// An attempt that exceeds its limit is repeated after a pause, in which operations on the
// collection can run.
func TestChangeIsRepeatedWhenTheLockIsNotFree(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		command string
		replies []bson.D
		pauses  time.Duration
		locked  bool
	}{
		"free at the second attempt":           {"drop", []bson.D{exceeded, done}, time.Second, false},
		"never free":                           {"drop", []bson.D{exceeded, exceeded, exceeded}, 2 * time.Second, true},
		"confirmed at the second attempt":      {"drop", []bson.D{slowMajority, done}, time.Second, false},
		"existing after an unconfirmed change": {"create", []bson.D{slowMajority, exists}, time.Second, false},
		"index build of an hour":               {"createIndexes", []bson.D{exceeded, exceeded, exceeded, exceeded, done}, 4 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := mongotest.NewReplies(t, test.replies...)
				begun := time.Now()
				err := mongox.Change(t.Context(), s.Client.Database("d"), bson.D{{Key: test.command, Value: "c"}})
				if mongox.HasCode(err, mongox.CodeNamespaceExists) {
					err = nil
				}
				if (err != nil) != test.locked || test.locked && (!errors.Is(err, mongox.ErrLocked) || !mongox.Transient(err)) {
					t.Errorf("the error is %v", err)
				}
				if took := time.Since(begun); s.Commands() != len(test.replies) || took != test.pauses {
					t.Errorf("%d commands in %v, want %d in %v", s.Commands(), took, len(test.replies), test.pauses)
				}
			})
		})
	}
}
