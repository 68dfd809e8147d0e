// Recording makes an animated picture of a program's output. It reads lines from stdin
// and writes an SVG to stdout. The SVG replays the lines at the times at which they
// arrived.
//
//	bin/sandbox … | recording --command 'make demo' >docs/demo.svg
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	command := flag.String("command", "make demo", "the `line` to show at the prompt")
	speed := flag.Float64("speed", 3, "how many times faster than the recorded run the picture plays")
	flag.Parse()
	if err := record(os.Stdin, os.Stdout, os.Stderr, *command, *speed); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

// record reads in to its end, copies each line to echo, and writes the picture to out.
func record(in io.Reader, out, echo io.Writer, command string, speed float64) error {
	if speed <= 0 {
		return fmt.Errorf("--speed is %v: use a number above 0", speed)
	}
	var lines []line
	begun := time.Now()
	scanner := bufio.NewScanner(in)
	for scanner.Scan() {
		lines = append(lines, line{at: time.Since(begun), text: scanner.Text()})
		if _, err := fmt.Fprintln(echo, scanner.Text()); err != nil {
			return fmt.Errorf("pass a line on: %w", err)
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read the output: %w", err)
	}
	return draw(out, command, lines, speed)
}
