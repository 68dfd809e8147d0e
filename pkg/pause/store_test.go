package pause

import (
	"slices"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Events or read models in that collection would be lost, or would look like pauses.
func TestCollectionOfPausesIsReserved(t *testing.T) {
	t.Parallel()
	if !slices.Contains(mongox.OwnCollections(), collectionName) {
		t.Errorf("the event store and read models may be in the collection %s", collectionName)
	}
}
