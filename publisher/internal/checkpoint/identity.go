package checkpoint

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrOtherPipeline says that a checkpoint belongs to another source or destination. Its
// error is an [*OtherPipelineError].
var ErrOtherPipeline = errors.New("checkpoint belongs to another pipeline")

// Identity is the pipeline that a checkpoint belongs to: one source and one destination. A
// position of one pipeline is not valid in another.
type Identity struct {
	// Cluster names the deployment of the event store, such as "replica set rs0". Hosts are
	// its members, sorted; none if they are not known. Two deployments can have one name;
	// they are different if they have no member and no collection in common.
	Cluster string   `bson:"cluster"`
	Hosts   []string `bson:"hosts,omitempty"`
	// Database and Collection belong to the event store.
	Database   string `bson:"database"`
	Collection string `bson:"collection"`
	// CollectionUUID is the collection's UUID, in hexadecimal digits. It is empty if there
	// was no collection, or if the server has no UUIDs.
	CollectionUUID string `bson:"collectionUUID"`
	// Namespace and Topic belong to Service Bus.
	Namespace string `bson:"namespace"`
	Topic     string `bson:"topic"`
	// SessionMode and, in mode bucket, SessionBuckets determine how events are distributed
	// over sessions.
	SessionMode    string `bson:"sessionMode"`
	SessionBuckets int    `bson:"sessionBuckets,omitempty"`
	// FirstEventID is the id of the first event of each aggregate.
	FirstEventID int64 `bson:"firstEventId"`
	// UUIDs is the representation of aggregate ids that are older UUIDs; empty if none is set.
	UUIDs string `bson:"uuidRepresentation,omitempty"`
}

// SessionModeField is the [Difference.Field] of the session mode and its buckets.
const SessionModeField = "session mode"

// FirstEventIDField is the [Difference.Field] of the id of the first event.
const FirstEventIDField = "PENSTOCK_FIRST_EVENT_ID"

// Difference is a field that two identities do not share.
type Difference struct {
	Field, Recorded, Here string
}

// Differences lists the reasons why here cannot use a checkpoint of i; it is empty for the
// same pipeline. Another collection with the same name is no difference: the publisher
// scans it.
func (i Identity) Differences(here Identity) []Difference {
	var differences []Difference
	compare := func(field, recorded, here string) {
		if recorded != here {
			differences = append(differences, Difference{Field: field, Recorded: recorded, Here: here})
		}
	}
	compare("cluster", i.Cluster, here.Cluster)
	if len(differences) == 0 && i.elsewhere(here) {
		compare("members of the cluster", strings.Join(i.Hosts, ","), strings.Join(here.Hosts, ","))
	}
	compare("database", i.Database, here.Database)
	compare("collection", i.Collection, here.Collection)
	compare("Service Bus namespace", i.Namespace, here.Namespace)
	compare("topic", i.Topic, here.Topic)
	compare(SessionModeField, i.sessions(), here.sessions())
	compare(FirstEventIDField, strconv.FormatInt(i.FirstEventID, 10), strconv.FormatInt(here.FirstEventID, 10))
	if i.UUIDs != "" { // it can be added when the first such id comes
		compare("uuidRepresentation in the connection string", i.UUIDs, here.UUIDs)
	}
	return differences
}

// elsewhere reports whether two clusters with one name are different: they have no member
// and no collection in common.
func (i Identity) elsewhere(here Identity) bool {
	if len(i.Hosts) == 0 || len(here.Hosts) == 0 {
		return false
	}
	if i.CollectionUUID != "" && i.CollectionUUID == here.CollectionUUID {
		return false
	}
	return !slices.ContainsFunc(i.Hosts, func(host string) bool { return slices.Contains(here.Hosts, host) })
}

func (i Identity) sessions() string {
	if i.SessionBuckets > 0 {
		return i.SessionMode + " of " + strconv.Itoa(i.SessionBuckets)
	}
	return i.SessionMode
}

// sameSource reports whether a position in source i is valid in source here.
func (i Identity) sameSource(here Identity) bool {
	return i.Cluster == here.Cluster && !i.elsewhere(here) &&
		i.Database == here.Database && i.Collection == here.Collection
}

// OtherPipelineError is [ErrOtherPipeline] with both sides.
type OtherPipelineError struct {
	Stream      string
	Differences []Difference
}

// Error lists the fields that differ.
func (e *OtherPipelineError) Error() string {
	fields := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		fields[i] = fmt.Sprintf("%s: recorded %q, now %q", d.Field, d.Recorded, d.Here)
	}
	return fmt.Sprintf("checkpoint %q belongs to another pipeline (%s)", e.Stream, strings.Join(fields, "; "))
}

// Is makes the error match [ErrOtherPipeline].
func (e *OtherPipelineError) Is(target error) bool { return target == ErrOtherPipeline }
