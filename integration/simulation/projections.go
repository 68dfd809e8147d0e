package simulation

import (
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/verify"
)

// definitions is how many versions of the projections there are. Version + definitions is the
// version without the projection tally.
const definitions = 3

// multiplier differs between the versions of the ledger, so that a document shows which
// version has folded each of its events.
func multiplier(version int) int64 { return []int64{31, 37, 41}[kept(version)-1] }

// kept returns the version with the projection tally.
func kept(version int) int { return (version-1)%definitions + 1 }

// projectionsFiles returns a version of the projections of a pipeline, and of its views. Nothing
// in them is idempotent: ledger counts, appends and chains, so that an event that is lost,
// repeated or out of order shows. tally folds the same events in another way, can fold the
// poison event, and is the same in every version. moves is the plan's.
func projectionsFiles(prefix string, version int, moves bool) (projections, views string) {
	projections, tally, _ := strings.Cut(projectionsTemplate, "  - name: tally")
	if version <= definitions {
		projections += "  - name: tally" + tally
	}
	var moved string
	if moves && kept(version) == definitions {
		moved = "moved-"
	}
	embedded := "accounts"
	if kept(version) == 2 {
		embedded = "{accounts: {list: true, sort: chain}}"
	}
	own := strings.NewReplacer("name: ", "name: "+prefix, "collection: tally", "collection: "+prefix+"tally", "collection: steps", "collection: "+prefix+"steps", "collection: ", "collection: "+prefix+moved, "VERSION", fmt.Sprint(kept(version)), "MULTIPLIER", fmt.Sprint(multiplier(version)), "EMBEDDED", embedded)
	return own.Replace(projections), own.Replace(viewsTemplate)
}

const projectionsTemplate = `projections:
  - name: ledger
    collection: ledger
    aggregateType: Account
    on:
      Opened:
        set: {version: "VERSION", person: payload.name, chain: "(state.?chain.orValue(7) * MULTIPLIER + payload.amount) % 1000003"}
        inc: {count: "1"}
        push: {seen: eventId}
      Added:
        set: {version: "VERSION", chain: "(state.?chain.orValue(7) * MULTIPLIER + payload.amount) % 1000003"}
        inc: {count: "1", sum: payload.amount}
        push: {seen: eventId}
      Snapshotted:
        set: {version: "VERSION", person: payload.name, chain: payload.amount, count: "1", sum: payload.amount, seen: "[eventId]"}
      Poison:
        inc: {sum: payload.amount + 1}
      Closed:
        delete: true
  - name: tally
    collection: tally
    on:
      Opened: {inc: {opened: "1"}, set: {person: payload.name}}
      Added: {inc: {count: "1", sum: payload.amount}}
      Snapshotted: {set: {opened: "1", count: payload.amount, sum: payload.amount, poisoned: "0", closed: "0", person: payload.name}}
      Poison: {inc: {poisoned: "1"}}
      Closed: {inc: {closed: "1"}}
`

// storedEvent is an event as a validator reads it from the event store.
type storedEvent struct {
	AggregateID string `bson:"aggregateId"`
	EventID     int64  `bson:"eventId"`
	EventType   string `bson:"eventType"`
	Payload     bson.M `bson:"payload"`
	// AggregateType is [wallet], or that of an account.
	AggregateType string `bson:"aggregateType"`
}

// wallet is the type of aggregates of which the ledger has no read model.
const wallet = "Wallet"

// expected is the read model of one aggregate; document is nil if none must be visible.
type expected struct {
	document bson.M
	last     int64
	// parked is the event that parks the aggregate; 0 for none.
	parked int64
}

// foldLedger folds the events of one aggregate, by code that shares nothing with the
// projector's.
func foldLedger(version int, events []storedEvent) expected {
	var e expected
	if len(events) == 0 || events[0].AggregateType == wallet {
		return e
	}
	for _, ev := range events {
		amount, _ := verify.Plain(ev.Payload["amount"]).(int64)
		switch ev.EventType {
		case "Opened", "Added":
			d := e.document
			if d == nil {
				d = bson.M{"chain": int64(7), "count": int64(0), "seen": bson.A{}}
			}
			d["chain"] = (d["chain"].(int64)*multiplier(version) + amount) % 1000003
			d["count"] = d["count"].(int64) + 1
			d["seen"] = append(d["seen"].(bson.A), ev.EventID)
			d["version"] = int64(version)
			if ev.EventType == "Added" {
				sum, _ := d["sum"].(int64)
				d["sum"] = sum + amount
			}
			if ev.EventType == "Opened" {
				d["person"] = ev.Payload["name"]
			}
			e.document = d
		case snapshot:
			e.document = bson.M{"version": int64(version), "person": ev.Payload["name"], "chain": amount, "count": int64(1), "sum": amount, "seen": bson.A{ev.EventID}}
		case "Poison":
			if !corrected(ev) {
				e.parked = ev.EventID
				return e
			}
			sum, _ := e.document["sum"].(int64)
			e.document["sum"] = sum + amount + 1
		case "Closed":
			e.document = nil
		}
		e.last = ev.EventID
	}
	return e
}

// corrected reports whether the ledger can apply a poison event.
func corrected(ev storedEvent) bool {
	_, isText := ev.Payload["amount"].(string)
	return !isText
}

// foldTally is foldLedger for the projection tally.
func foldTally(_ int, events []storedEvent) expected {
	e := expected{document: bson.M{}}
	add := func(field string, n int64) {
		old, _ := e.document[field].(int64)
		e.document[field] = old + n
	}
	for _, ev := range events {
		switch ev.EventType {
		case "Opened":
			add("opened", 1)
			e.document["person"] = ev.Payload["name"]
		case "Added":
			add("count", 1)
			amount, _ := verify.Plain(ev.Payload["amount"]).(int64)
			add("sum", amount)
		case snapshot:
			amount := verify.Plain(ev.Payload["amount"])
			e.document = bson.M{"opened": int64(1), "count": amount, "sum": amount, "poisoned": int64(0), "closed": int64(0), "person": ev.Payload["name"]}
		case "Poison":
			add("poisoned", 1)
		case "Closed":
			add("closed", 1)
		}
		e.last = ev.EventID
	}
	return e
}
