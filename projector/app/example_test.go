package app_test

import (
	"errors"
	"fmt"
	"os"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/app"
)

// account is the read model, one document an aggregate.
type account struct {
	Owner string `bson:"owner"`
	Cents int64  `bson:"cents"`
}

// apply returns the account after an event. It is an ordinary function and can be tested as
// one.
func apply(a *account, ev *event.Event) (*account, error) {
	switch ev.EventType {
	case "AccountOpenedEvent":
		opened := &account{}
		return opened, ev.Payload.Unmarshal(opened)
	case "MoneyDepositedEvent":
		var deposit struct{ Cents int64 }
		if a == nil {
			return nil, errors.New("a deposit to no account") // parks the aggregate
		}
		if err := ev.Payload.Unmarshal(&deposit); err != nil {
			return nil, err
		}
		a.Cents += deposit.Cents
		return a, nil
	case "AccountClosedEvent":
		return nil, nil // deletes the document
	}
	return a, nil
}

// A projector of your own: its projections in Go run beside those of PENSTOCK_PROJECTIONS,
// or instead of them. Everything else is the same as in the standard projector.
func ExampleMain() {
	accounts, err := app.NewProjection(app.Declaration{
		Name: "accounts", Collection: "accountReadModels", AggregateType: "Account",
		Deletes: true,
		Apply:   app.Typed(apply),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(app.Main(accounts))
}

// A projection in Go without structs: it works on the document's BSON.
func ExampleNewProjection() {
	latest, err := app.NewProjection(app.Declaration{
		Name: "latest", Collection: "latestEvents",
		Apply: func(state app.State, ev *event.Event) (app.State, error) {
			if document, ok := ev.Payload.DocumentOK(); ok {
				return document, nil
			}
			return state, nil
		},
	})
	fmt.Println(latest.Name(), latest.Collection(), err)
	// Output: latest latestEvents <nil>
}
