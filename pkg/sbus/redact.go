package sbus

import "strings"

const redacted = "***"

// Redact gives a connection string that may be logged: only the endpoint, the entity and
// the emulator flag keep their values. A string that is not a connection string becomes
// ***.
func Redact(connectionString string) string {
	if connectionString == "" {
		return ""
	}
	var parts []string
	for part := range strings.SplitSeq(connectionString, ";") {
		name, _, ok := strings.Cut(part, "=")
		switch {
		case part == "":
			continue
		case !ok:
			return redacted
		}
		switch strings.ToLower(name) {
		case "endpoint", "entitypath", "usedevelopmentemulator":
			parts = append(parts, part)
		case "sharedaccesskeyname", "sharedaccesskey", "sharedaccesssignature":
			parts = append(parts, name+"="+redacted)
		default:
			// An unknown name may be the tail of a secret.
			parts = append(parts, redacted)
		}
	}
	return strings.Join(parts, ";")
}
