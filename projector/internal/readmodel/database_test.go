package readmodel

import (
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongoxtest"
)

// A server that has stopped answering does not keep the group whose transaction it
// should abort: the others of its collection wait behind it.
func TestAbortIsNotWaitedForWithoutEnd(t *testing.T) {
	t.Parallel()
	server := mongoxtest.NewServer(t,
		bson.D{{Key: "ok", Value: 1}, {Key: "n", Value: 0}, {Key: "nModified", Value: 0}},
		bson.D{{Key: "ok", Value: 1}})
	server.Ignore("abortTransaction")
	w := newWriter(onMongo(server.Client.Database("shop")), WriterOptions{})
	k := mortal("a")
	done := make(chan error, 1)
	go func() {
		_, err := w.fencedGroup(t.Context(), k.Collection, []*Operation{{Key: k, Kind: Create, From: 2, To: 3, Document: rawOf(t, `{"a":3}`)}})
		done <- err
	}()
	select {
	case err := <-done:
		if verdictOnCreation(err).Status != Stale {
			t.Errorf("error %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("still waiting after a minute")
	}
	if command := server.Command(t, 1); !strings.Contains(command, "abortTransaction") {
		t.Errorf("the transaction was left open: %s", command)
	}
}
