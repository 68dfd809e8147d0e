package mongox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

// duplicate is a duplicate key error in the form of a server of version 8.
func duplicate(index int, field string) mongo.WriteError {
	raw := testkit.Raw(bson.D{{Key: "index", Value: int32(index)}, {Key: "code", Value: int32(11000)}, {Key: "keyPattern", Value: bson.D{{Key: field, Value: int32(1)}}}})
	message := "E11000 duplicate key error collection: transcript.rm index: " + field + `_ dup key: { ` + field + `: "u1" }`
	return mongo.WriteError{Index: index, Code: 11000, Message: message, Raw: raw}
}

func bulk(concern *mongo.WriteConcernError, errs ...mongo.WriteError) mongo.BulkWriteException {
	e := mongo.BulkWriteException{WriteConcernError: concern}
	for _, we := range errs {
		e.WriteErrors = append(e.WriteErrors, mongo.BulkWriteError{WriteError: we})
	}
	return e
}

func TestTransient(t *testing.T) {
	t.Parallel()
	conflict := mongo.WriteError{Code: 112}
	command := func(code int32, labels ...string) error { return mongo.CommandError{Code: code, Labels: labels} }
	unconfirmed := &mongo.WriteConcernError{Code: 64}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nil":                       {nil, false},
		"unknown":                   {errors.New("unknown"), false},
		"canceled":                  {context.Canceled, true},
		"deadline":                  {fmt.Errorf("find: %w", context.DeadlineExceeded), true},
		"client closed":             {mongo.ErrClientDisconnected, true},
		"server selection":          {topology.ServerSelectionError{Wrapped: errors.New("no primary")}, true},
		"connection":                {topology.ConnectionError{Wrapped: io.EOF}, true},
		"pool exhausted":            {topology.WaitQueueTimeoutError{}, true},
		"pool cleared":              {fmt.Errorf("insert: %w", poolClearedForError{io.EOF}), true},
		"network":                   {&net.OpError{Op: "dial", Err: errors.New("refused")}, true},
		"end of stream":             {io.ErrUnexpectedEOF, true},
		"stepped down":              {command(189), true},
		"not primary":               {command(10107), true},
		"shutdown":                  {command(11600), true},
		"write conflict":            {command(112, "TransientTransactionError"), true},
		"label alone":               {command(0, "RetryableWriteError"), true},
		"network label":             {command(0, "NetworkError"), true},
		"overloaded":                {command(462, "SystemOverloadedError"), true},
		"max time":                  {command(50), true},
		"cursor gone":               {command(43), true},
		"disk full":                 {command(14031), true},
		"wrapped":                   {fmt.Errorf("save: %w", command(91)), true},
		"unauthorized":              {command(13), false},
		"fault of Atlas' proxy":     {mongo.CommandError{Code: 8000, Name: "AtlasError", Message: "internal error: connection to the cluster was lost"}, true},
		"password refused by Atlas": {mongo.CommandError{Code: 8000, Name: "AtlasError", Message: "bad auth : authentication failed"}, false},
		"action refused by Atlas":   {mongo.CommandError{Code: 8000, Name: "AtlasError", Message: "user is not allowed to do action [find] on [shop.events]"}, false},
		"authentication":            {topology.ConnectionError{Wrapped: mongo.CommandError{Code: 18}}, false},
		"authentication, selecting": {mongo.CommandError{Code: 18, Wrapped: topology.ServerSelectionError{Wrapped: topology.ConnectionError{}}}, false},
		"history lost":              {command(286), false},
		"fatal change stream":       {command(280), false},
		"bad value":                 {command(2), false},
		"duplicate key":             {mongo.WriteException{WriteErrors: mongo.WriteErrors{duplicate(0, "_id")}}, false},
		"conflict in a write":       {mongo.WriteException{WriteErrors: mongo.WriteErrors{conflict}}, true},
		"write concern":             {mongo.WriteException{WriteConcernError: unconfirmed}, true},
		"write, unknown concern":    {mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 79}}, true},
		"write with a label":        {mongo.WriteException{Labels: []string{"RetryableWriteError"}}, true},
		"write without a cause":     {mongo.WriteException{}, false},
		"bulk of conflicts":         {bulk(nil, conflict, conflict), true},
		"bulk, one permanent error": {bulk(nil, conflict, duplicate(1, "_id")), false},
		"bulk, write concern and a permanent error": {bulk(unconfirmed, duplicate(1, "_id")), false},
		"bulk, write concern":                       {bulk(unconfirmed), true},
		"bulk with a label":                         {mongo.BulkWriteException{Labels: []string{"NetworkError"}}, true},
		"bulk without a cause":                      {mongo.BulkWriteException{}, false},
		"marshal":                                   {mongo.MarshalError{Err: errors.New("no")}, false},
	} {
		if got := mongox.Transient(c.err); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestDuplicateKeyOnID(t *testing.T) {
	t.Parallel()
	raw := duplicate(0, "_id").Raw
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nil":           {nil, false},
		"single":        {duplicate(0, "_id"), true},
		"other index":   {duplicate(0, "email"), false},
		"write":         {fmt.Errorf("insert: %w", mongo.WriteException{WriteErrors: mongo.WriteErrors{duplicate(0, "_id")}}), true},
		"write, other":  {mongo.WriteException{WriteErrors: mongo.WriteErrors{duplicate(0, "email")}}, false},
		"bulk":          {bulk(nil, duplicate(0, "_id"), duplicate(3, "_id")), true},
		"bulk, mixed":   {bulk(nil, duplicate(0, "_id"), duplicate(3, "email")), false},
		"bulk, concern": {bulk(&mongo.WriteConcernError{}, duplicate(0, "_id")), false},
		"bulk, nothing": {bulk(&mongo.WriteConcernError{}), false},
		"command":       {mongo.CommandError{Code: 11000, Raw: raw}, true},
		"other code":    {mongo.CommandError{Code: 112, Raw: raw}, false},
		"network":       {io.EOF, false},
	} {
		if got := mongox.DuplicateKeyOnID(c.err); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	if got := mongox.WriteErrors(io.EOF); got != nil {
		t.Errorf("network: %v", got)
	}
	if got := mongox.WriteErrors(bulk(&mongo.WriteConcernError{})); got != nil {
		t.Errorf("write concern: %v", got)
	}
	got := mongox.WriteErrors(fmt.Errorf("write: %w", bulk(nil, duplicate(2, "_id"), mongo.WriteError{Index: 5, Code: 121})))
	if len(got) != 2 || got[2].Code != 11000 || got[5].Code != 121 {
		t.Errorf("bulk: %v", got)
	}
	if got := mongox.WriteErrors(mongo.WriteException{WriteErrors: mongo.WriteErrors{duplicate(0, "_id")}}); len(got) != 1 || got[0].Code != 11000 {
		t.Errorf("write: %v", got)
	}
}
