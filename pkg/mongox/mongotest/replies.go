package mongotest

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/drivertest"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/xoptions"
)

// Replies is a server that answers a client of the real driver with the replies of a test, one for
// each command, and records the commands. After the last reply, commands fail. It uses the
// driver's own test tools, from its packages under x.
type Replies struct {
	// Client is the server's only client; it is disconnected when the test ends.
	Client *mongo.Client

	deployment *drivertest.MockDeployment

	mu       sync.Mutex
	commands []bson.Raw
	silentTo string
}

// NewReplies makes a server that gives these replies. A reply with ok 0 is an error.
func NewReplies(t *testing.T, replies ...bson.D) *Replies {
	t.Helper()
	deployment := drivertest.NewMockDeployment(replies...)
	s := &Replies{deployment: deployment}
	// As mongox.Open does.
	opts := options.Client().SetReadConcern(readconcern.Majority()).SetWriteConcern(writeconcern.Majority()).SetMonitor(&event.CommandMonitor{
		Started: func(ctx context.Context, e *event.CommandStartedEvent) {
			s.mu.Lock()
			s.commands = append(s.commands, bytes.Clone(e.Command))
			silent := s.silentTo == e.CommandName
			s.mu.Unlock()
			if silent {
				<-ctx.Done()
			}
		},
	})
	if err := xoptions.SetInternalClientOptions(opts, "deployment", deployment); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.Client, err = mongo.Connect(opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		deployment.ClearResponses()
		deployment.AddResponses(bson.D{{Key: "ok", Value: 1}}) // endSessions
		if err := s.Client.Disconnect(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Hello is the reply to hello of a server of a supported version, with further fields.
func Hello(fields ...bson.E) bson.D {
	return append(bson.D{{Key: "ok", Value: 1}, {Key: "maxWireVersion", Value: 17}}, fields...)
}

// Answer adds replies after the ones that are left.
func (s *Replies) Answer(replies ...bson.D) { s.deployment.AddResponses(replies...) }

// Ignore leaves commands of that name without an answer until their contexts end.
func (s *Replies) Ignore(command string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silentTo = command
}

// Commands returns the number of received commands.
func (s *Replies) Commands() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.commands)
}

// Command returns the i-th command as relaxed JSON, without the fields that every command
// has.
func (s *Replies) Command(t *testing.T, i int) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if i >= len(s.commands) {
		t.Fatalf("there were only %d commands", len(s.commands))
	}
	var all, kept bson.D
	if err := bson.Unmarshal(s.commands[i], &all); err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		switch e.Key {
		case "lsid", "$db", "$clusterTime", "$readPreference":
			continue
		}
		kept = append(kept, e)
	}
	text, err := bson.MarshalExtJSON(kept, false, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
