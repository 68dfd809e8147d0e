package operate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// maxLine bounds one event of a file, in bytes: MongoDB's largest document as Extended
// JSON.
const maxLine = 64 << 20

// errNotNDJSON describes the format of a file of events.
var errNotNDJSON = errors.New("write one event per line, as Extended JSON, in the format of mongoexport")

// readEventFile calls visit with the events of a file, each as the topic delivers it. If an
// event breaks the event contract, visit gets the reason and the keys that could be read.
// visit may keep the event.
func readEventFile(path string, fields event.Fields, visit func(*event.Event, error) error) error {
	reader, err := event.NewReader(fields)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the events: %w", err)
	}
	defer file.Close()
	lines := bufio.NewReaderSize(file, 64<<10)
	for number := 1; ; number++ {
		line, err := readLine(lines)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s:%d: %w", path, number, err)
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			document, malformed := event.DecodeBody(event.ContentTypeJSON, text)
			if malformed != nil {
				return fmt.Errorf("read %s:%d: %w; %w", path, number, malformed, errNotNDJSON)
			}
			ev, broken := reader.Read(document)
			if err := visit(&ev, broken); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
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
