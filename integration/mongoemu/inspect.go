package mongoemu

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// Documents returns the documents of a collection that a majority has, in the order in which
// they were inserted; none if there is no such collection. It is no command: no fault
// concerns it, and it costs no connection.
func (s *Server) Documents(database, collection string) []bson.Raw {
	var documents []bson.Raw
	// It fails only if the journal does.
	_ = s.store.View(s.store.Majority(), func(v *store.Viewer) error {
		if c := v.Collection(store.Namespace{DB: database, Coll: collection}); c != nil {
			documents = slices.Grow(documents, c.Len())
			c.Each(func(document []byte) { documents = append(documents, document) })
		}
		return nil
	})
	return documents
}
