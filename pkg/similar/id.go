package similar

import (
	"regexp"
	"strings"
)

// hexID matches the text of a UUID and of an ObjectId, in any case.
var hexID = regexp.MustCompile(`^([0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|[0-9A-Fa-f]{24})$`)

// LowerID returns the id that is probably meant by a UUID or an ObjectId in upper case, which is
// another id, and can only be a text. It is empty for other ids.
func LowerID(id string) string {
	if lower := strings.ToLower(id); lower != id && hexID.MatchString(id) {
		return lower
	}
	return ""
}
