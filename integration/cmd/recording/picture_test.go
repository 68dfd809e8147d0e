package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// text reads the picture as a viewer does: it must be well-formed.
func text(t *testing.T, picture string) (lines []string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, picture)
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "text" {
			continue
		}
		var content string
		if err := decoder.DecodeElement(&content, &start); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.ReplaceAll(content, "\u00a0", " "))
	}
}

func TestPictureHasEveryLine(t *testing.T) {
	t.Parallel()
	var picture, echo strings.Builder
	in := "a <b> & \"c\"\n  two  spaces\n│ table │\n" + strings.Repeat("x", 2*maxColumns) + "\n"
	if err := record(strings.NewReader(in), &picture, &echo, "make demo", 3); err != nil {
		t.Fatal(err)
	}
	if echo.String() != in {
		t.Errorf("passed on %q", echo.String())
	}
	want := []string{"$ make demo", `a <b> & "c"`, "  two  spaces", "│ table │", strings.Repeat("x", maxColumns-1) + "…"}
	if got := text(t, picture.String()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the picture shows %q, want %q", got, want)
	}
}

func TestPictureScrollsWhenTheWindowIsFull(t *testing.T) {
	t.Parallel()
	for count, want := range map[int]int{1: 0, rows - 1: 0, rows: 1, 2*rows + 4: rows + 5} {
		lines := make([]line, count)
		for i := range lines {
			lines[i] = line{at: time.Duration(i+1) * time.Second, text: "line"}
		}
		var picture strings.Builder
		if err := draw(&picture, "c", lines, 1); err != nil {
			t.Fatal(err)
		}
		_, frames, _ := strings.Cut(picture.String(), "@keyframes s {")
		frames, _, _ = strings.Cut(frames, "\n")
		if got := strings.Count(frames, "translateY(-"); got != want {
			t.Errorf("%d lines: moves up %d times, want %d", count, got, want)
		}
		if still := fmt.Sprintf("#s { transform: translateY(-%dpx)", want*rowHeight); !strings.Contains(picture.String(), still) {
			t.Errorf("%d lines: without animation the end is not in the window", count)
		}
	}
}

func TestRecordRefuses(t *testing.T) {
	t.Parallel()
	if err := record(strings.NewReader("a\n"), io.Discard, io.Discard, "c", 0); err == nil || !strings.Contains(err.Error(), "--speed") {
		t.Errorf("no speed: %v", err)
	}
	if err := record(strings.NewReader(""), io.Discard, io.Discard, "c", 1); !errors.Is(err, errNoLines) {
		t.Errorf("no lines: %v", err)
	}
}
