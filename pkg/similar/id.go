package similar

import (
	"regexp"
	"strings"
)

// hexID matches the text of a UUID and of an ObjectId, in any case.
var hexID = regexp.MustCompile(`^([0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|[0-9A-Fa-f]{24})$`)

// LowerID returns a UUID or an ObjectId that is written in upper case in lower case, which is
// probably the intended id. In upper case it is another id, and can only be a text. LowerID
// returns an empty text for any other id.
func LowerID(id string) string {
	if lower := strings.ToLower(id); lower != id && hexID.MatchString(id) {
		return lower
	}
	return ""
}
