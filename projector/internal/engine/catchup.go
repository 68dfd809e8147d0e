package engine

import (
	"context"
	"math"
)

// Pager continues units from the event store, page by page: an [Engine].
type Pager interface {
	Resume(ctx context.Context, s Suspended) (Resumed, error)
}

var _ Pager = (*Engine)(nil)

// CatchUp resumes a unit page by page, until it has its head, or a page has a cause why the
// unit cannot continue. It is the one way to bring an aggregate forward without the topic.
//
// CatchUp calls next after each page without a cause. next returns the head up to which the
// unit continues, or a negative one if CatchUp ends. If next is nil, the head stays the same. Then CatchUp
// also ends, without a cause and below the head, if a page does not raise the watermark:
// other processes keep writing the unit.
//
// The result is that of the last page. The error is that of [Engine.Resume] or of next.
func CatchUp(ctx context.Context, pages Pager, s Suspended, next func(watermark int64) (head int64, err error)) (Resumed, error) {
	for last := int64(math.MinInt64); ; {
		resumed, err := pages.Resume(ctx, s)
		if err != nil || resumed.Cause != nil {
			return resumed, err
		}
		if next != nil {
			if s.Head, err = next(resumed.Watermark); s.Head < 0 || err != nil {
				return resumed, err
			}
			continue
		}
		if resumed.Watermark >= s.Head || resumed.Watermark <= last {
			return resumed, nil
		}
		last = resumed.Watermark
	}
}
