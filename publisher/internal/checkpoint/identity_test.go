package checkpoint_test

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
)

var pipelineA = checkpoint.Identity{
	Cluster: "replica set rs0", Hosts: []string{"db-0:27017", "db-1:27017"},
	Database: "shop", Collection: "events", CollectionUUID: "aa",
	Namespace: "orders.servicebus.windows.net", Topic: "orders", SessionMode: "aggregate",
}

// A second publisher with another source or destination must neither read from the position
// nor move it.
func TestOtherPipelineIsRefused(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*checkpoint.Identity){
		"cluster":                func(i *checkpoint.Identity) { i.Cluster = "replica set rs1" },
		"members of the cluster": func(i *checkpoint.Identity) { i.Hosts, i.CollectionUUID = []string{"other:27017"}, "bb" },
		"database":               func(i *checkpoint.Identity) { i.Database = "other" },
		"collection":             func(i *checkpoint.Identity) { i.Collection = "other" },
		"Service Bus namespace":  func(i *checkpoint.Identity) { i.Namespace = "other.servicebus.windows.net" },
		"topic":                  func(i *checkpoint.Identity) { i.Topic = "other" },
		"session mode":           func(i *checkpoint.Identity) { i.SessionMode, i.SessionBuckets = "bucket", 64 },
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			c := newCollection(t)
			s, _ := newStore(t, c)
			owner := claim(t, s, "a")
			here := pipelineA
			change(&here)
			err := s.Check(t.Context(), here)
			if !errors.Is(err, checkpoint.ErrOtherPipeline) || !strings.Contains(err.Error(), "("+field+`: recorded "`) {
				t.Errorf("check returned %v", err)
			}
			_, err = s.Claim(t.Context(), "b", here)
			if !errors.Is(err, checkpoint.ErrOtherPipeline) {
				t.Errorf("claim returned %v", err)
			}
			if err := owner.Save(t.Context(), checkpoint.Position{Token: token("1")}); err != nil {
				t.Errorf("the refused claim fenced its owner: %v", err)
			}
		})
	}
}

func TestSamePipelineIsAccepted(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*checkpoint.Identity){
		"another collection of the name":     func(i *checkpoint.Identity) { i.CollectionUUID = "bb" },
		"no collection":                      func(i *checkpoint.Identity) { i.CollectionUUID = "" },
		"another member":                     func(i *checkpoint.Identity) { i.Hosts = []string{"db-1:27017", "db-2:27017"} },
		"other members, the same collection": func(i *checkpoint.Identity) { i.Hosts = []string{"other:27017"} },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, _ := newStore(t, newCollection(t))
			claim(t, s, "a")
			here := pipelineA
			change(&here)
			got, err := s.Claim(t.Context(), "b", here)
			if err != nil {
				t.Fatal(err)
			}
			if got.Position.CollectionUUID != "aa" {
				t.Errorf("the checkpoint belongs to collection %q", got.Position.CollectionUUID)
			}
		})
	}
}

// Between the read and the update another pipeline may create the checkpoint.
func TestComparisonIsPartOfTheClaim(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	s, _ := newStore(t, c)
	claim(t, s, "a")
	other := pipelineA
	other.Topic = "other"
	c.afterRead = func() {
		c.afterRead = nil
		c.set(bson.D{{Key: "identity", Value: other}, {Key: "epoch", Value: int64(7)}})
	}
	if _, err := s.Claim(t.Context(), "b", pipelineA); !errors.Is(err, checkpoint.ErrOtherPipeline) {
		t.Errorf("claim returned %v", err)
	}
	if stored, _ := c.stored(); stored["epoch"] != int64(7) {
		t.Errorf("the refused claim changed %v", stored)
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	otherTopic, otherCollection := pipelineA, pipelineA
	otherTopic.Topic = "other"
	otherCollection.Collection, otherCollection.CollectionUUID = "other", "bb"
	for name, test := range map[string]struct {
		here checkpoint.Identity
		uuid string
	}{
		"another topic continues at the position": {otherTopic, "aa"},
		"another collection is scanned":           {otherCollection, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := newStore(t, newCollection(t))
			first := claim(t, s, "a")
			if err := first.Save(t.Context(), checkpoint.Position{Token: token("1")}); err != nil {
				t.Fatal(err)
			}
			read, err := s.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Release(t.Context(), read, "ada", test.here); err != nil {
				t.Fatal(err)
			}
			if err := s.Release(t.Context(), read, "ada", pipelineA); !errors.Is(err, checkpoint.ErrMoved) {
				t.Errorf("a release of a checkpoint that has changed returned %v", err)
			}
			if err := first.Save(t.Context(), checkpoint.Position{Token: token("2")}); !errors.Is(err, checkpoint.ErrFenced) {
				t.Errorf("save of the former owner returned %v", err)
			}
			got, err := s.Claim(t.Context(), "b", test.here)
			if err != nil {
				t.Fatal(err)
			}
			if got.Position.CollectionUUID != test.uuid || !same(got.Position, checkpoint.Position{Token: token("1")}) {
				t.Errorf("released at %v", got.Position)
			}
			if _, err := s.Claim(t.Context(), "a", pipelineA); !errors.Is(err, checkpoint.ErrOtherPipeline) {
				t.Errorf("claim by the former owner returned %v", err)
			}
		})
	}
}

func TestCollectionIsSavedWithThePosition(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t, newCollection(t))
	c := claim(t, s, "a")
	scan := checkpoint.Position{Scan: checkpoint.Scan{OperationTime: bson.Timestamp{T: 5, I: 1}}, CollectionUUID: "bb"}
	if err := c.Save(t.Context(), scan); err != nil {
		t.Fatal(err)
	}
	if got := claim(t, s, "b").Position; got.CollectionUUID != "bb" || !got.Scan.Active() {
		t.Errorf("stored %+v", got)
	}
}
