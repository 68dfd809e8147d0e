package watch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	code := func(code int32, labels ...string) error {
		return fmt.Errorf("read change stream: %w", mongo.CommandError{Code: code, Labels: labels})
	}
	for name, test := range map[string]struct {
		err                error
		opening, following watch.Class
	}{
		"history lost":                        {code(286, "NonResumableChangeStreamError"), watch.HistoryLost, watch.HistoryLost},
		"fatal to the stream":                 {code(280, "NonResumableChangeStreamError"), watch.HistoryLost, watch.HistoryLost},
		"final":                               {code(464), watch.HistoryLost, watch.HistoryLost},
		"unknown, labelled non-resumable":     {code(99999, "NonResumableChangeStreamError"), watch.HistoryLost, watch.HistoryLost},
		"invalid token":                       {code(260), watch.HistoryLost, watch.Reopen},
		"malformed token":                     {code(50811), watch.HistoryLost, watch.Reopen},
		"no token":                            {code(40647), watch.HistoryLost, watch.Reopen},
		"token is no hexadecimal":             {mongo.CommandError{Code: 9, Message: "resume token string was not a valid hex string"}, watch.HistoryLost, watch.Reopen},
		"pipeline is not understood":          {mongo.CommandError{Code: 9, Message: "unknown stage"}, watch.Refused, watch.Refused},
		"event over 16 MiB":                   {code(10334), watch.HistoryLost, watch.HistoryLost},
		"cursor not found":                    {code(43), watch.Reopen, watch.Reopen},
		"interrupted at shutdown":             {code(11600), watch.Reopen, watch.Reopen},
		"shutdown in progress":                {code(91), watch.Reopen, watch.Reopen},
		"primary stepped down":                {code(189), watch.Reopen, watch.Reopen},
		"not writable primary":                {code(10107), watch.Reopen, watch.Reopen},
		"not primary, no secondary ok":        {code(13435), watch.Reopen, watch.Reopen},
		"labelled resumable":                  {code(1, "ResumableChangeStreamError"), watch.Reopen, watch.Reopen},
		"network":                             {mongo.CommandError{Labels: []string{"NetworkError"}, Wrapped: io.EOF}, watch.Reopen, watch.Reopen},
		"connection closed":                   {io.ErrUnexpectedEOF, watch.Reopen, watch.Reopen},
		"our own timeout":                     {fmt.Errorf("wait: %w", context.DeadlineExceeded), watch.Reopen, watch.Reopen},
		"unknown code":                        {code(12345), watch.Reopen, watch.Reopen},
		"no code":                             {errors.New("server is odd"), watch.Reopen, watch.Reopen},
		"unauthorized":                        {code(13), watch.Refused, watch.Refused},
		"authentication failed":               {code(18), watch.Refused, watch.Refused},
		"authentication failed at Atlas":      {mongo.CommandError{Code: 8000, Message: "bad auth : authentication failed"}, watch.Refused, watch.Reopen},
		"fault of the proxy of Atlas":         {mongo.CommandError{Code: 8000, Message: "internal error"}, watch.Reopen, watch.Reopen},
		"standalone server":                   {code(40573), watch.Refused, watch.Refused},
		"no majority read concern":            {code(148), watch.Refused, watch.Refused},
		"view":                                {code(166), watch.Refused, watch.Refused},
		"no such command":                     {code(59), watch.Refused, watch.Refused},
		"invalid namespace":                   {code(73), watch.Refused, watch.Refused},
		"unknown pipeline stage":              {code(40324), watch.Refused, watch.Refused},
		"unsupported command":                 {code(115), watch.Refused, watch.Refused},
		"transaction numbers on a standalone": {code(20), watch.Refused, watch.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for phase, want := range map[watch.Phase]watch.Class{watch.Opening: test.opening, watch.Following: test.following} {
				got, remedy := watch.Classify(test.err, phase)
				if got != want {
					t.Errorf("phase %d: %v, want %v", phase, got, want)
				}
				if (got == watch.Refused) != (remedy != "") {
					t.Errorf("phase %d: %v with remedy %q", phase, got, remedy)
				}
			}
		})
	}
}
