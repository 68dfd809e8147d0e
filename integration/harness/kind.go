package harness

import "fmt"

// Kind is a kind of [Backend].
type Kind string

// Kinds of backend that the end-to-end tests run on.
const (
	// KindEmbedded are the stand-ins, in the test's own process; see [StartEmbedded].
	KindEmbedded Kind = "embedded"
	// KindContainers are MongoDB and Microsoft's Service Bus emulator in containers; see
	// package containers.
	KindContainers Kind = "containers"
	// KindExternal are servers that the environment names; see [LoadExternal].
	KindExternal Kind = "external"
)

// KindVariable is the environment variable that selects the kind.
const KindVariable = "PENSTOCK_TEST_BACKEND"

// SelectKind returns the kind that the environment selects, [KindEmbedded] if
// [KindVariable] is empty.
func SelectKind(getenv func(string) string) (Kind, error) {
	switch kind := Kind(getenv(KindVariable)); kind {
	case "":
		return KindEmbedded, nil
	case KindEmbedded, KindContainers, KindExternal:
		return kind, nil
	default:
		return "", fmt.Errorf("%s is %q: use %s, %s or %s", KindVariable, kind, KindEmbedded, KindContainers, KindExternal)
	}
}
