package readmodel

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// WriterOptions tune a [Writer]. The zero value is good.
type WriterOptions struct {
	// Window is how long an operation waits for company while others are about; a
	// lone one does not wait. Default 2 ms.
	Window time.Duration
	// MaxOperations and MaxBytes bound one bulk write; defaults 1,000 and 8 MiB.
	MaxOperations, MaxBytes int
	// Queue bounds the operations that wait; beyond it Apply blocks. Default 10,000.
	Queue int
	// Registerer may be nil: no metrics then.
	Registerer prometheus.Registerer
}

// Writer writes operations of many sessions in guarded bulk writes. Run must be
// running for Apply to return.
type Writer struct{}

// NewWriter makes a writer into that database.
func NewWriter(db *mongo.Database, o WriterOptions) *Writer { panic("pending") }

// Run commits until ctx ends, and returns when all it started has ended.
func (w *Writer) Run(ctx context.Context) error { panic("pending") }

// Apply carries out operations and answers for each in the order given. Their keys
// are distinct. An error is the context's, or that Run has ended: the operations
// may or may not have happened then. Their bytes must stay untouched for good.
func (w *Writer) Apply(ctx context.Context, operations []Operation) ([]Result, error) {
	panic("pending")
}
