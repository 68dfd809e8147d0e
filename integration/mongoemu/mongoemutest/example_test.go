package mongoemutest_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
)

// TestInsertIsRetried drops the connection after the server has executed the insert, so that
// only the reply is lost. The driver retries, and the server does not insert twice.
func TestInsertIsRetried(t *testing.T) {
	server := mongoemutest.Start(t, mongoemu.Config{})
	orders := mongoemutest.Connect(t, server).Database("shop").Collection("orders")

	server.FailCommands(mongoemu.CommandFault{Commands: []string{"insert"}, AfterExecution: true, CloseConnection: true})
	if _, err := orders.InsertOne(t.Context(), bson.M{"_id": 4711}); err != nil {
		t.Fatal(err)
	}
	if n, err := orders.CountDocuments(t.Context(), bson.M{}); n != 1 || err != nil {
		t.Errorf("%d documents, %v", n, err)
	}
}
