package mongox

import (
	"reflect"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// TestGuaranteesHoldForEveryURI checks the options that the driver gets.
func TestGuaranteesHoldForEveryURI(t *testing.T) {
	t.Parallel()
	const hostile = "mongodb://host/?timeoutMS=5000&retryWrites=false&retryReads=false&w=1&journal=false&readConcernLevel=local" +
		"&readPreference=secondary&readPreferenceTags=dc:ny&maxStalenessSeconds=90&connectTimeoutMS=0&serverSelectionTimeoutMS=0&appName=shop"
	o, err := clientOptions(hostile, Options{AppName: "penstock"})
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case o.Timeout != nil:
		t.Errorf("timeout %v reaches the driver, which then retries without a pause", *o.Timeout)
	case !*o.RetryWrites, !*o.RetryReads:
		t.Error("the driver does not retry")
	case !reflect.DeepEqual(o.WriteConcern, writeconcern.Majority()), !reflect.DeepEqual(o.ReadConcern, readconcern.Majority()):
		t.Errorf("writes %+v, reads %+v, not by a majority", o.WriteConcern, o.ReadConcern)
	case !reflect.DeepEqual(o.ReadPreference, readpref.Primary()):
		t.Errorf("reads from %v", o.ReadPreference)
	case o.ConnectTimeout != nil, *o.ServerSelectionTimeout != 10*time.Second:
		t.Errorf("timeouts %v, %v", o.ConnectTimeout, o.ServerSelectionTimeout)
	case *o.AppName != "penstock":
		t.Errorf("called %s", *o.AppName)
	}
}
