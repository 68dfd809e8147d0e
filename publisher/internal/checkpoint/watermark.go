package checkpoint

import "context"

// Handle names an added event until it is acknowledged.
type Handle uint64

// Watermark finds the last position that it and everything before it has been
// acknowledged, while acknowledgements arrive in any order. It is safe for
// concurrent use, as long as Add and Mark are called in the order of the stream.
type Watermark struct{}

// NewWatermark makes a watermark over at most window events: those that were added
// after the low watermark. One event that is not acknowledged holds all later ones
// in the window, acknowledged or not; window bounds both the memory (about 40 bytes
// an event) and what a failover repeats.
func NewWatermark(window int) *Watermark { panic("pending") }

// Add adds the next event, which stands at p, and copies what p refers to. It waits
// while the window is full, and fails only with ctx.
func (w *Watermark) Add(ctx context.Context, p Position) (Handle, error) { panic("pending") }

// Ack acknowledges events: the broker, or the quarantine, has them. A handle that is
// acknowledged already is ignored.
func (w *Watermark) Ack(handles ...Handle) { panic("pending") }

// Mark says that everything up to p has been added: p is the post-batch resume token
// of an exhausted batch, or the time to stream from when a scan is over. The low
// watermark reaches p when everything that was added before is acknowledged.
func (w *Watermark) Mark(p Position) { panic("pending") }

// Low returns the low watermark and how often it has moved; the zero Position and 0
// before it first did. The caller may keep the position.
func (w *Watermark) Low() (p Position, moves uint64) { panic("pending") }

// Unacknowledged returns how many added events wait for their acknowledgement;
// Window, how many stand after the low watermark.
func (w *Watermark) Unacknowledged() int { panic("pending") }

// Window returns how many events were added after the low watermark.
func (w *Watermark) Window() int { panic("pending") }
