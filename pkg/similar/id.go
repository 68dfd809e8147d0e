package similar

import (
	"regexp"
	"strings"
)

// hexID matches the text of a UUID and of an ObjectId, in any case.
var hexID = regexp.MustCompile(`^([0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|[0-9A-Fa-f]{24})$`)

// LowerID returns the lower case of a UUID or an ObjectId that has letters in upper case: that is
// probably the intended id. As it is written, the id can only be a text, which is another one.
// LowerID returns an empty text for any other id.
func LowerID(id string) string {
	if lower := strings.ToLower(id); lower != id && hexID.MatchString(id) {
		return lower
	}
	return ""
}
