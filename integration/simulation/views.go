package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/verify"
)

// viewsTemplate has the views of a pipeline. In groups, an account moves to another document
// with almost every event, and a poison event parks its part; the second version has a list of
// accounts. In steps, an account contributes
// to several documents, each of which all accounts change all the time. A wallet moves between
// the same documents. Each document has the fields of the account or wallet whose id sorts
// first.
const viewsTemplate = `views:
  - name: groups
    collection: groups
    from:
      - aggregateType: Account
        key: state.group
        as: EMBEDDED
        on:
          Opened | Added:
            set: {version: "VERSION", person: payload.name, group: "'g' + string(payload.amount % 3)", chain: "(state.?chain.orValue(7) * MULTIPLIER + payload.amount) % 1000003"}
            inc: {count: "1"}
          Snapshotted:
            set: {version: "VERSION", person: payload.name, group: "'g' + string(payload.amount % 3)", chain: payload.amount, count: "1"}
          Poison:
            inc: {count: payload.amount + 1}
          Closed:
            delete: true
    totals:
      chains: {sum: part.chain}
      events: {sum: part.count}
      greatest: {max: part.chain}
      odd: {count: true, where: part.count % 2 == 1}
      chainsByCount: {sum: part.chain, by: part.count % 4}
      versions: {set: part.version}
  - name: steps
    collection: steps
    from:
      - aggregateType: Account
        each: state.seen
        key: "'s' + string(element.step % 3)"
        keep: fields
        on:
          Opened | Added:
            push: {seen: "{'step': eventId, 'of': aggregateId}"}
          Snapshotted:
            set: {seen: "[{'step': eventId, 'of': aggregateId}]"}
          Closed:
            delete: true
        totals:
          count: {count: true}
          sum: {sum: element.step}
          last: {max: element.step}
          stepsOf: {count: true, by: element.of}
      - aggregateType: Wallet
        key: "'s' + string(state.amount % 3)"
        keep: fields
        on:
          Opened | Added | Snapshotted:
            set: {of: aggregateId, amount: payload.amount}
          Closed:
            delete: true
        totals:
          count: {count: true}
          sum: {sum: part.amount}
`

// foldViews folds all events into the documents of both views, by code that shares nothing with
// the projector's.
func foldViews(version int, events map[string][]storedEvent) (groups, steps map[string]bson.M) {
	groups, steps = map[string]bson.M{}, map[string]bson.M{}
	document := func(in map[string]bson.M, key string, totals bson.M) bson.M {
		if in[key] == nil {
			in[key] = bson.M{"parts": int64(0)}
			for name, value := range totals {
				in[key][name] = value
			}
		}
		return in[key]
	}
	for _, id := range slices.Sorted(maps.Keys(events)) {
		list := events[id]
		if list[0].AggregateType == wallet {
			foldWallet(id, list, func(key string) bson.M {
				return document(steps, key, bson.M{"count": int64(0), "sum": int64(0), "stepsOf": bson.M{}})
			})
			continue
		}
		var part bson.M
		var seen []int64
		parked := false
		for _, ev := range list {
			amount, _ := verify.Plain(ev.Payload["amount"]).(int64)
			switch ev.EventType {
			case "Opened", "Added":
				seen = append(seen, ev.EventID)
				if parked {
					continue
				}
				if part == nil {
					part = bson.M{"chain": int64(7), "count": int64(0)}
				}
				part["chain"] = (part["chain"].(int64)*multiplier(version) + amount) % 1000003
				part["count"] = part["count"].(int64) + 1
				part["group"], part["version"] = "g"+strconv.FormatInt(amount%3, 10), int64(version)
				part["person"] = ev.Payload["name"]
			case snapshot:
				seen = []int64{ev.EventID}
				if !parked {
					part = bson.M{"chain": amount, "count": int64(1), "group": "g" + strconv.FormatInt(amount%3, 10), "version": int64(version), "person": ev.Payload["name"]}
				}
			case "Poison":
				if parked = parked || !corrected(ev); !parked {
					part["count"] = part["count"].(int64) + amount + 1
				}
			case "Closed":
				seen = nil
				if !parked {
					part = nil
				}
			}
		}
		if part != nil {
			d := document(groups, part["group"].(string), bson.M{"chains": int64(0), "events": int64(0), "odd": int64(0), "versions": bson.A{int64(version)}, "accounts": bson.M{}, "chainsByCount": bson.M{}})
			chain, count := part["chain"].(int64), part["count"].(int64)
			greatest, ok := d["greatest"].(int64)
			if !ok || chain > greatest {
				d["greatest"] = chain
			}
			d["parts"], d["chains"], d["events"] = d["parts"].(int64)+1, d["chains"].(int64)+chain, d["events"].(int64)+count
			d["odd"] = d["odd"].(int64) + count%2
			addTo(d["chainsByCount"].(bson.M), strconv.FormatInt(count%4, 10), chain)
			d["accounts"].(bson.M)[id] = part
		}
		contributes := map[string]bool{}
		for _, n := range seen {
			key := "s" + strconv.FormatInt(n%3, 10)
			d := document(steps, key, bson.M{"count": int64(0), "sum": int64(0), "stepsOf": bson.M{}})
			keepFirst(d, bson.M{"step": n, "of": id})
			last, _ := d["last"].(int64)
			d["count"], d["sum"], d["last"] = d["count"].(int64)+1, d["sum"].(int64)+n, max(last, n)
			addTo(d["stepsOf"].(bson.M), id, 1)
			if !contributes[key] {
				contributes[key] = true
				d["parts"] = d["parts"].(int64) + 1
			}
		}
	}
	if kept(version) == 2 {
		for _, d := range groups {
			d["accounts"] = listOf(d["accounts"].(bson.M))
		}
	}
	return groups, steps
}

// addTo adds to a total of a key. A key whose total is 0 is not there.
func addTo(totals bson.M, key string, n int64) {
	old, _ := totals[key].(int64)
	if totals[key] = old + n; old+n == 0 {
		delete(totals, key)
	}
}

// listOf is the list of the accounts, by their chains and then by their ids.
func listOf(accounts bson.M) (list bson.A) {
	for _, id := range slices.Sorted(maps.Keys(accounts)) {
		part := accounts[id].(bson.M)
		part["aggregateId"] = id
		list = append(list, part)
	}
	slices.SortStableFunc(list, func(a, b any) int { return cmp.Compare(a.(bson.M)["chain"].(int64), b.(bson.M)["chain"].(int64)) })
	return list
}

// foldWallet folds the events of a wallet into its document of the view steps.
func foldWallet(id string, events []storedEvent, document func(key string) bson.M) {
	var last storedEvent
	for _, ev := range events {
		if ev.EventType != "Poison" { // steps has no rule for it
			last = ev
		}
	}
	if last.EventType == "Closed" {
		return
	}
	amount, _ := verify.Plain(last.Payload["amount"]).(int64)
	d := document("s" + strconv.FormatInt(amount%3, 10))
	keepFirst(d, bson.M{"of": id, "amount": amount})
	d["parts"], d["count"], d["sum"] = d["parts"].(int64)+1, d["count"].(int64)+1, d["sum"].(int64)+amount
}

// keepFirst sets the fields that a document does not have yet.
func keepFirst(document, fields bson.M) {
	for name, value := range fields {
		if document[name] == nil {
			document[name] = value
		}
	}
}

// compareViews compares the documents of both views with the fold of all events.
func (o *outcome) compareViews() (findings []string, err error) {
	groups, steps := foldViews(o.version, o.events)
	for collection, expected := range map[string]map[string]bson.M{"groups": groups, "steps": steps} {
		found, err := o.world.viewDocuments(collection)
		if err != nil {
			return nil, err
		}
		for key, want := range expected {
			if got := found[key]; !reflect.DeepEqual(got, want) {
				findings = append(findings, fmt.Sprintf("%s %s is %v, not %v", collection, key, got, want))
			}
			delete(found, key)
		}
		for key, got := range found {
			findings = append(findings, fmt.Sprintf("%s %s is %v, and no part contributes to it", collection, key, got))
		}
	}
	return findings, nil
}

// viewDocuments returns the documents of a view, without the fields that are the engine's.
func (w *World) viewDocuments(collection string) (map[string]bson.M, error) {
	found := map[string]bson.M{}
	for _, raw := range w.models(collection) {
		var d bson.M
		if err := bson.Unmarshal(raw, &d); err != nil {
			return nil, fmt.Errorf("read %s: %w", collection, err)
		}
		for _, name := range []string{"_id", "lastUpdatedAt", "lastGeneration"} {
			delete(d, name)
		}
		found[text(raw, "_id")] = verify.Plain(d).(bson.M)
	}
	return found, nil
}

// readViews reads the documents of the view groups. At every moment each must be what the parts
// in it make, and all parts must be of one version.
func (o *observer) readViews() {
	found, err := o.world.viewDocuments("groups")
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.find("%v", err)
	}
	var versions []any
	parts := 0
	for key, d := range found {
		accounts, list := d["accounts"].(bson.A)
		if !list {
			byID, _ := d["accounts"].(bson.M)
			accounts = slices.Collect(maps.Values(byID))
		}
		parts += len(accounts)
		var chains, events, odd int64
		for _, part := range accounts {
			p, _ := part.(bson.M)
			chain, _ := p["chain"].(int64)
			count, _ := p["count"].(int64)
			chains, events, odd = chains+chain, events+count, odd+count%2
			if !slices.Contains(versions, p["version"]) {
				versions = append(versions, p["version"])
			}
		}
		if d["parts"] != int64(len(accounts)) || d["chains"] != chains || d["events"] != events || d["odd"] != odd {
			o.find("groups %s is not what its parts make: %v", key, d)
		}
	}
	if parts == 0 && o.groups > 3 {
		o.find("the view groups is empty and had %d accounts", o.groups)
	}
	o.groups = parts
	if len(versions) > 1 {
		o.find("the view groups has parts of the versions %v at once", versions)
	}
}
