package operate

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// maxLine bounds one event of a file, in bytes: MongoDB's largest document as Extended
// JSON.
const maxLine = 64 << 20

// errNotNDJSON describes the format of a file of events.
var errNotNDJSON = errors.New("write one event per line, as Extended JSON, in the format of mongoexport")

// readEventFile calls visit with the wanted events of a file, each as the topic delivers it, one
// aggregate after the other, and those of an aggregate in the order of their ids. If an event
// breaks the event contract, visit gets the reason and the keys that could be read. wanted is
// called with every event, in the order of the file. visit may keep the event. The file may be
// compressed by gzip, whatever its name is.
func readEventFile(path string, fields event.Fields, wanted func(*event.Event) bool, visit func(*event.Event, error) error) error {
	reader := event.NewReader(fields)
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the events: %w", err)
	}
	defer file.Close()
	lines, err := linesOf(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	var events []readEvent
	for number := 1; ; number++ {
		line, err := readLine(lines)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s:%d: %w", path, number, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			document, malformed := event.DecodeBody(event.ContentTypeJSON, line)
			if malformed != nil {
				return fmt.Errorf("read %s:%d: %w; %w", path, number, malformed, errNotNDJSON)
			}
			ev, broken := reader.Read(document)
			if wanted(&ev) {
				events = append(events, readEvent{&ev, broken})
			}
		}
		if err != nil {
			return visitSorted(events, visit)
		}
	}
}

// readEvent is an event, and why it breaks the event contract.
type readEvent struct {
	*event.Event
	broken error
}

// visitSorted calls visit with events, one aggregate after the other, and those of an aggregate in
// the order of their ids. Events without a readable id come first.
func visitSorted(events []readEvent, visit func(*event.Event, error) error) error {
	slices.SortStableFunc(events, func(a, b readEvent) int {
		return cmp.Or(cmp.Compare(a.AggregateID, b.AggregateID), cmp.Compare(a.EventID, b.EventID))
	})
	for _, ev := range events {
		if err := visit(ev.Event, ev.broken); err != nil {
			return err
		}
	}
	return nil
}

// linesOf returns the lines of a file: unzipped, and without a byte order mark, which some editors
// and shells of Windows write.
func linesOf(file io.Reader) (*bufio.Reader, error) {
	lines := bufio.NewReaderSize(file, 64<<10)
	// A file may be shorter than what is asked for.
	if start, _ := lines.Peek(2); string(start) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(lines)
		if err != nil {
			return nil, err
		}
		lines = bufio.NewReaderSize(unzipped, 64<<10)
	}
	if start, _ := lines.Peek(3); string(start) == "\uFEFF" {
		_, err := lines.Discard(len(start))
		return lines, err
	}
	return lines, nil
}

// readLine reads one line, of at most maxLine bytes.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("the line has more than %d bytes; %w", maxLine, errNotNDJSON)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
