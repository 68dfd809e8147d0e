package operate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// maxLine bounds one event of a file, in bytes: MongoDB's largest document as Extended
// JSON.
const maxLine = 64 << 20

// errNotNDJSON describes the format of a file of events.
var errNotNDJSON = errors.New("write one event per line, as Extended JSON, in the format of mongoexport")

// readEventFile calls visit with the wanted events of a file, each as the topic delivers it, and
// those of one aggregate in the order of their ids. If an event breaks the event contract, visit
// gets the reason and the keys that could be read. wanted is called with every event, in the
// order of the file. visit may keep the event. The file may be compressed by gzip, whatever its
// name is.
func readEventFile(path string, fields event.Fields, wanted func(*event.Event) bool, visit func(*event.Event, error) error) error {
	reader, err := event.NewReader(fields)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the events: %w", err)
	}
	defer file.Close()
	lines, err := linesOf(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	sorted := sorter{visit: visit, aggregates: map[string]*unsorted{}}
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
				if err := sorted.add(&ev, broken); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return sorted.end()
		}
	}
}

// sorter calls visit with the events of each aggregate in the order of their ids. It keeps an
// event until it has called visit with the event before it. If a file lacks that one, it keeps
// the event until the end.
type sorter struct {
	visit      func(*event.Event, error) error
	aggregates map[string]*unsorted
	// ids are the keys of aggregates, in the order of the file.
	ids []string
}

// unsorted are the kept events of an aggregate, by id. last is the largest id that was visited.
type unsorted struct {
	last int64
	kept map[int64][]readEvent
}

// readEvent is an event of a file, and why it breaks the event contract.
type readEvent struct {
	*event.Event
	broken error
}

// add takes the next event of the file. An event without a readable id keeps its place.
func (s *sorter) add(ev *event.Event, broken error) error {
	a := s.aggregates[ev.AggregateID]
	if a == nil {
		a = &unsorted{kept: map[int64][]readEvent{}}
		s.aggregates[ev.AggregateID] = a
		s.ids = append(s.ids, ev.AggregateID)
	}
	if ev.EventID > a.last+1 {
		a.kept[ev.EventID] = append(a.kept[ev.EventID], readEvent{ev, broken})
		return nil
	}
	if err := s.visit(ev, broken); err != nil {
		return err
	}
	a.last = max(a.last, ev.EventID)
	for len(a.kept[a.last+1]) > 0 {
		a.last++
		if err := s.release(a, a.last); err != nil {
			return err
		}
	}
	return nil
}

// end visits the kept events.
func (s *sorter) end() error {
	for _, aggregateID := range s.ids {
		a := s.aggregates[aggregateID]
		for _, id := range slices.Sorted(maps.Keys(a.kept)) {
			if err := s.release(a, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// release visits the kept events with the id.
func (s *sorter) release(a *unsorted, id int64) error {
	for _, ev := range a.kept[id] {
		if err := s.visit(ev.Event, ev.broken); err != nil {
			return err
		}
	}
	delete(a.kept, id)
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
