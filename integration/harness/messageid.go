package harness

import (
	"fmt"
	"strconv"
	"strings"
)

// parseMessageID splits a MessageId into the event's keys. It cannot parse ids of more than
// 128 characters, which are hashed; the workloads have none.
func parseMessageID(id string) (aggregateID string, eventID int64, err error) {
	at := strings.LastIndex(id, "/")
	if at >= 0 {
		eventID, err = strconv.ParseInt(id[at+1:], 10, 64)
	}
	if at < 0 || err != nil {
		return "", 0, fmt.Errorf("read what the topic accepted: MessageId %q is not <aggregateId>/<eventId>", id)
	}
	return id[:at], eventID, nil
}
