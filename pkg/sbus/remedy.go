package sbus

import "strings"

// Remedy says what to do about the two refusals whose usual remedies mislead: that of an expired
// token, and that of a disabled entity. It is empty for other errors. The SDK has the
// conditions only in the text of some errors, so Remedy looks at the text.
func Remedy(err error, entity string) string {
	switch text := err.Error(); {
	case strings.Contains(text, "ExpiredToken"):
		return "Service Bus takes a token that was made just now for expired: correct the clock of this machine"
	case strings.Contains(text, "com.microsoft:entity-disabled"):
		return entity + " is disabled: set its status to Active"
	}
	return ""
}
