package sbus

import "strings"

// Remedy says what to do about the refusals whose usual remedies mislead: those of an expired
// token, a disabled entity, a quota that is used up, and a busy namespace. It is empty for other
// errors. The SDK has the conditions only in the text of some errors, so Remedy looks at the text.
func Remedy(err error, entity string) string {
	switch text := err.Error(); {
	case strings.Contains(text, "ExpiredToken"):
		return "Service Bus takes a token that was made just now for expired: correct the clock of this machine, or replace the SharedAccessSignature of the connection string"
	case strings.Contains(text, "com.microsoft:entity-disabled"):
		return entity + " is disabled: set its status to Active"
	case strings.Contains(text, "amqp:resource-limit-exceeded"):
		return "Service Bus says that a quota is used up: look for a subscription that nobody receives from, or for too many connections"
	case strings.Contains(text, "com.microsoft:server-busy"):
		return "Service Bus throttles the namespace: if it continues, give it more messaging units"
	}
	return ""
}
