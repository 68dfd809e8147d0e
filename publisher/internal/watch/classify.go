package watch

import (
	"context"
	"errors"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Errors that end [Watcher.Run]; each is wrapped with the server's own.
var (
	// ErrHistoryLost says that the stream cannot continue from the position any more. The
	// events after it must be read from the event store.
	ErrHistoryLost = errors.New("change stream cannot continue from its position")
	// ErrRefused says that the server refuses to let the event store be read, and that a retry
	// does not help. The text has the remedy.
	ErrRefused = errors.New("reading the event store is refused")
	// ErrInvalidated says that the collection was dropped or renamed, or that another
	// collection took its name. No stream carries all documents that the collection with that
	// name has now.
	ErrInvalidated = errors.New("events collection was dropped, renamed or replaced")
)

// Errors after which the stream is reopened: after a backoff if the server has closed the
// cursor, otherwise immediately.
var (
	errCursorClosed = errors.New("server has closed the stream's cursor")
	errSilent       = errors.New("stream is silent")
)

// Class is the kind of an error of a change stream or a scan.
type Class int

// The classes.
const (
	// Reopen: open the stream again from the last position, after a backoff.
	Reopen Class = iota
	// HistoryLost: the stream cannot continue from the position ([ErrHistoryLost]).
	HistoryLost
	// Refused: a retry does not help ([ErrRefused]).
	Refused
)

// Phase says when an error occurred.
type Phase int

// The phases.
const (
	// Opening: the error is the answer to the watcher's position, or that of a scan.
	Opening Phase = iota
	// Following: the stream was open. The driver resumes once by itself, with resumeAfter,
	// so the error may concern the driver's position.
	Following
)

// verdict is the class of a server's code in each phase.
type verdict struct {
	opening, following Class
	remedy             string
}

func (v verdict) in(phase Phase) Class {
	if phase == Following {
		return v.following
	}
	return v.opening
}

var (
	lost     = verdict{opening: HistoryLost, following: HistoryLost}
	badToken = verdict{opening: HistoryLost, following: Reopen}
)

func refused(remedy string) verdict {
	return verdict{opening: Refused, following: Refused, remedy: remedy}
}

const (
	remedyRights     = "grant the user find, listIndexes and changeStream on the events collection (the role read on its database)"
	remedyReplicaSet = "run MongoDB as a replica set (rs.initiate() makes one of a single node); a standalone server has no change streams"
	remedyVersion    = "use MongoDB 6.0 or later; a server that only speaks its protocol may lack change streams, or find with min and hint"
	remedyNamespace  = "check PENSTOCK_EVENTS_DATABASE and PENSTOCK_EVENTS_COLLECTION: they must name a collection, and a view is none"
)

// verdicts are the known codes. An unknown error is retried, which skips nothing; the logs,
// the lag and finally the liveness probe show it.
// https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml
var verdicts = map[int32]verdict{
	280:   lost,     // ChangeStreamFatalError
	286:   lost,     // ChangeStreamHistoryLost
	464:   lost,     // final, as 280 is
	10334: lost,     // BSONObjectTooLarge: the scan begins a stream after that change
	260:   badToken, // InvalidResumeToken
	40647: badToken, // no resume token at all
	50811: badToken, // malformed resume token

	mongox.CodeUnauthorized:         refused(remedyRights),
	mongox.CodeAuthenticationFailed: refused(mongox.RemedyCredentials),
	// On a new stream the proxy of Atlas refuses it. An open stream may have met a fault of
	// the proxy.
	mongox.CodeAtlasError:          {opening: Refused, following: Reopen, remedy: mongox.RemedyCredentials},
	20:                             refused(remedyReplicaSet), // IllegalOperation
	40573:                          refused(remedyReplicaSet), // $changeStream on a standalone server
	mongox.CodeFailedToParse:       refused(remedyVersion),
	mongox.CodeCommandNotFound:     refused(remedyVersion),
	72:                             refused(remedyVersion), // InvalidOptions
	mongox.CodeCommandNotSupported: refused(remedyVersion),
	mongox.CodeNotImplemented:      refused(remedyVersion),
	40324:                          refused(remedyVersion), // unrecognized pipeline stage
	mongox.CodeUnknownField:        refused(remedyVersion),
	73:                             refused(remedyNamespace), // InvalidNamespace
	166:                            refused(remedyNamespace), // CommandNotSupportedOnView
	mongox.CodeMajorityNotEnabled:  refused(mongox.RemedyMajority),
}

// labelNonResumable is on errors of a stream that cannot be resumed, also with codes that
// are unknown here.
const labelNonResumable = "NonResumableChangeStreamError"

// Classify gives the class of err, which a stream returned in that phase, and the remedy
// for [Refused].
func Classify(err error, phase Phase) (class Class, remedy string) {
	var command mongo.CommandError
	if !errors.As(err, &command) || errors.Is(err, mongox.ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded) {
		return Reopen, ""
	}
	if command.Code == mongox.CodeFailedToParse && strings.Contains(command.Message, "resume token") {
		return badToken.in(phase), ""
	}
	if command.Code == mongox.CodeAtlasError && mongox.Transient(err) {
		return Reopen, ""
	}
	if v, known := verdicts[command.Code]; known {
		if class = v.in(phase); class == Refused {
			remedy = v.remedy
		}
		return class, remedy
	}
	if command.HasErrorLabel(labelNonResumable) {
		return HistoryLost, ""
	}
	return Reopen, ""
}
