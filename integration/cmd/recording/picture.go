package main

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// line is a line of output, and when it was printed.
type line struct {
	at   time.Duration
	text string
}

// The window: its size in characters, and a character's size in pixels.
const (
	rows       = 28
	maxColumns = 144
	charWidth  = 7.23
	rowHeight  = 17
	margin     = 16
	bar        = 28
)

// hold is how long the last frame stays before the animation begins again.
const hold = 12 * time.Second

// errNoLines means that the input had no lines.
var errNoLines = errors.New("there was no output to show")

// draw writes the picture. Each line appears at its time, and the text scrolls up by one
// row when the window is full. A viewer without animation, or with reduced motion, shows
// the end.
func draw(w io.Writer, command string, lines []line, speed float64) error {
	if len(lines) == 0 {
		return errNoLines
	}
	lines = append([]line{{text: "$ " + command}}, lines...)
	columns := 0
	for i := range lines {
		lines[i].text = fit(lines[i].text)
		columns = max(columns, utf8.RuneCountInString(lines[i].text))
	}
	last := time.Duration(float64(lines[len(lines)-1].at) / speed)
	total := (last + hold).Seconds()
	share := func(l line) float64 { return 100 * l.at.Seconds() / speed / total }

	p := &printer{w: w}
	width := float64(columns)*charWidth + 2*margin
	height := float64(rows*rowHeight + 2*margin + bar)
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="recording of %s">`+"\n", width, height, width, height, escape(command))
	p.printf("<style>\n")
	p.printf("text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d8dee9; white-space: pre; }\n")
	p.printf(".p { fill: #8fbcbb; } .n { fill: #ebcb8b; } .t { fill: #a3be8c; }\n")
	scrolled := max(0, len(lines)-rows) * rowHeight
	p.printf("#s { transform: translateY(-%dpx); animation: s %.2fs step-end infinite; }\n", scrolled, total)
	p.printf("@keyframes s { 0%% { transform: translateY(0); }")
	for i := rows; i < len(lines); i++ {
		p.printf(" %.3f%% { transform: translateY(-%dpx); }", share(lines[i]), (i-rows+1)*rowHeight)
	}
	p.printf(" }\n")
	for i, l := range lines {
		if at := share(l); at > 0 {
			p.printf("@keyframes a%d { 0%% { opacity: 0; } %.3f%% { opacity: 1; } }\n#l%d { animation: a%d %.2fs step-end infinite; }\n", i, at, i, i, total)
		}
	}
	p.printf("@media (prefers-reduced-motion: reduce) { #s, text { animation: none !important; } }\n</style>\n")
	p.printf(`<rect width="100%%" height="100%%" rx="8" fill="#1b2028"/>` + "\n")
	for i, color := range []string{"#bf616a", "#ebcb8b", "#a3be8c"} {
		p.printf(`<circle cx="%d" cy="15" r="5" fill="%s"/>`, margin+6+18*i, color)
	}
	p.printf("\n"+`<svg x="%d" y="%d" width="%.0f" height="%d"><g id="s">`+"\n", margin, bar+margin/2, width-2*margin, rows*rowHeight+4)
	for i, l := range lines {
		p.printf(`<text id="l%d" class="%s" x="0" y="%d">%s</text>`+"\n", i, class(i, l.text), (i+1)*rowHeight-4, escape(l.text))
	}
	p.printf("</g></svg>\n</svg>\n")
	return p.err
}

// class returns the style class of a line: the prompt, an indented note, the table at the
// end, or other output.
func class(i int, text string) string {
	switch {
	case i == 0:
		return "p"
	case strings.ContainsAny(text, "│┌└"):
		return "t"
	case strings.HasPrefix(text, "      "):
		return "n"
	}
	return "l"
}

// fit cuts a line to the window.
func fit(text string) string {
	if utf8.RuneCountInString(text) <= maxColumns {
		return text
	}
	return string([]rune(text)[:maxColumns-1]) + "…"
}

// escape makes text safe within XML. It preserves consecutive spaces, which some viewers
// collapse in plain text.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a write to a builder never fails
	return strings.ReplaceAll(b.String(), "  ", "\u00a0\u00a0")
}

// printer writes until the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	_, err := fmt.Fprintf(p.w, format, args...)
	p.err = cmp.Or(p.err, err)
}
