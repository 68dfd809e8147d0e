package cli

import (
	"strings"
	"testing"
)

// The ends of an id distinguish it, so a table on a terminal leaves out its middle.
func TestALongCellIsCutInTheMiddle(t *testing.T) {
	t.Parallel()
	text := "begin" + strings.Repeat("x", 2000) + "end"
	short := cell(text, true)
	if len([]rune(short)) != maxCell || !strings.HasPrefix(short, "begin") || !strings.HasSuffix(short, "end") {
		t.Errorf("%d characters: %s", len([]rune(short)), short)
	}
	if cell(text, false) != text {
		t.Error("a cell for a file is cut")
	}
}
