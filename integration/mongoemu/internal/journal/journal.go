package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	fileName = "journal"
	lockName = "lock"
	// frameHead is the size in bytes of the length and the checksum before each frame.
	frameHead = 8
	// maxFrame bounds a frame in bytes. A frame holds the documents of one transaction.
	maxFrame = 1 << 30
	buffer   = 1 << 20
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Journal is an open journal. Only one goroutine may use it at a time.
type Journal struct {
	dir  string
	lock *os.File
	file *os.File
	w    *bufio.Writer
	err  error
}

// Open creates the directory if it does not exist, locks it for this process, and calls
// each with every complete frame in it. It truncates the file after the last complete
// frame.
func Open(dir string, each func(frame []byte) error) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the data directory's lock: %w", err)
	}
	if err := exclusive(lock); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data directory %s, which another process may use: %w", dir, err), lock.Close())
	}
	j := &Journal{dir: dir, lock: lock}
	if err := j.open(each); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return j, nil
}

func (j *Journal) open(each func([]byte) error) error {
	f, err := os.OpenFile(filepath.Join(j.dir, fileName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	whole, err := read(bufio.NewReaderSize(f, buffer), each)
	if err == nil {
		err = f.Truncate(whole)
	}
	if err == nil {
		_, err = f.Seek(whole, io.SeekStart)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("read the journal: %w", err), f.Close())
	}
	j.file, j.w = f, bufio.NewWriterSize(f, buffer)
	return nil
}

// read calls each with every complete frame and returns the size of these frames in
// bytes.
func read(r io.Reader, each func([]byte) error) (whole int64, err error) {
	var head [frameHead]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return whole, cut(err)
		}
		n := binary.LittleEndian.Uint32(head[:])
		if n > maxFrame {
			return whole, nil
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(r, frame); err != nil {
			return whole, cut(err)
		}
		if crc32.Checksum(frame, table) != binary.LittleEndian.Uint32(head[4:]) {
			return whole, nil
		}
		if err := each(frame); err != nil {
			return whole, err
		}
		whole += frameHead + int64(n)
	}
}

// cut returns nil for the end of the file, even within a frame: a crash can leave an
// incomplete frame.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// Append adds a frame to the buffer. Flush writes the buffer to the file.
func (j *Journal) Append(frame []byte) {
	if j.err != nil {
		return
	}
	var head [frameHead]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(frame)))
	binary.LittleEndian.PutUint32(head[4:], crc32.Checksum(frame, table))
	if _, err := j.w.Write(head[:]); err != nil {
		j.err = err
		return
	}
	_, j.err = j.w.Write(frame)
}

// Flush writes the appended frames to the file, without fsync: they survive a crash of
// the process, but not of the machine. All later calls return the first error again.
func (j *Journal) Flush() error {
	if j.err == nil {
		j.err = j.w.Flush()
	}
	if j.err != nil {
		return fmt.Errorf("write the journal: %w", j.err)
	}
	return nil
}

// Rewrite atomically replaces the journal with the frames that write appends.
func (j *Journal) Rewrite(write func(next *Journal)) error {
	path := filepath.Join(j.dir, fileName)
	f, err := os.OpenFile(path+".next", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("rewrite the journal: %w", err)
	}
	next := &Journal{dir: j.dir, lock: j.lock, file: f, w: bufio.NewWriterSize(f, buffer)}
	write(next)
	err = next.Flush()
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(path+".next", path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("rewrite the journal: %w", err), f.Close())
	}
	err = j.file.Close()
	*j = *next
	if err != nil && !errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("close the old journal: %w", err)
	}
	return nil
}

// Close flushes the journal and unlocks the directory.
func (j *Journal) Close() error {
	return errors.Join(j.Flush(), j.file.Close(), j.lock.Close())
}
