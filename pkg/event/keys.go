package event

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// MaxIDBytes is the length above which a MessageId or a SessionId becomes a hash. Service
// Bus allows 128 characters and does not define character. A string never has more
// characters than bytes, so 128 bytes fit in any case.
const MaxIDBytes = 128

// hashPrefix marks an id that is the hash of a longer one.
const hashPrefix = "sha256:"

// MaxSessionBuckets bounds the buckets of [SessionPerBucket]. With more buckets, sessions
// would be as short-lived as with one session per aggregate.
const MaxSessionBuckets = 1 << 16

// MessageID is "<aggregateId>/<eventId>". If that exceeds 128 bytes, or if the aggregateId
// looks like a hash itself, "sha256:" and the hash of the aggregateId in hex replace the
// aggregateId.
func MessageID(aggregateID string, eventID int64) string {
	const maxDigits = 20
	var digits [1 + maxDigits]byte
	suffix := strconv.AppendInt(append(digits[:0], '/'), eventID, 10)
	if len(aggregateID)+len(suffix) > MaxIDBytes || looksHashed(aggregateID) {
		return hashed(aggregateID) + string(suffix)
	}
	return aggregateID + string(suffix)
}

// SessionMode says which events share a session.
type SessionMode string

// The modes, by the names that configuration uses.
const (
	// SessionPerAggregate gives each aggregate a session of its own.
	SessionPerAggregate SessionMode = "aggregate"
	// SessionPerBucket spreads the aggregates over a fixed number of sessions by
	// their hash.
	SessionPerBucket SessionMode = "bucket"
)

// SessionKeys derives session keys from aggregate ids. Make it with [NewSessionKeys]; the
// zero value has mode aggregate.
type SessionKeys struct {
	buckets []string
}

// NewSessionKeys makes the session keys of a mode. In mode bucket, buckets is from 1 to
// [MaxSessionBuckets]; otherwise it is ignored. The service's configuration checks both.
func NewSessionKeys(mode SessionMode, buckets int) SessionKeys {
	if mode != SessionPerBucket {
		return SessionKeys{}
	}
	names := make([]string, buckets)
	for i := range names {
		names[i] = "bucket-" + strconv.Itoa(i)
	}
	return SessionKeys{buckets: names}
}

// Key is the session key of an aggregate, at most 128 bytes. In mode aggregate it is the
// aggregate's id, or "sha256:" and the id's hash if the id is longer or looks like a hash
// itself. In mode bucket it is "bucket-<n>". It must be the same in every process and
// release: a changed key would break the order of events in flight.
func (s SessionKeys) Key(aggregateID string) string {
	if s.buckets != nil {
		return s.buckets[hash64(aggregateID)%uint64(len(s.buckets))]
	}
	if len(aggregateID) > MaxIDBytes || looksHashed(aggregateID) {
		return hashed(aggregateID)
	}
	return aggregateID
}

func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// looksHashed reports whether s has the form of a hashed id. Such an id is hashed too, so
// that no aggregate can take the form of another one's id.
func looksHashed(s string) bool {
	return len(s) == len(hashPrefix)+2*sha256.Size && strings.HasPrefix(s, hashPrefix)
}

// hash64 is FNV-1a over 64 bits, finished with the mixer of MurmurHash3. FNV alone
// distributes ids badly if they differ only in their last characters.
func hash64(s string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
