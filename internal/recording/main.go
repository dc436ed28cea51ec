// Command recording turns the output of a command into an animated SVG picture of a terminal.
//
//	changefeed demo | go run ./internal/recording -title 'changefeed demo' > docs/demo.svg
//
// A line that begins with a time, MM:SS.s, appears at that time of the animation. A line
// without a time appears together with the line before it. The animation runs once.
package main

import (
	"bufio"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// Sizes in pixels.
const (
	margin     = 16
	lineHeight = 19
	titleBar   = 30
	charWidth  = 7.9
)

func main() {
	title := flag.String("title", "", "`text` of the title bar")
	flag.Parse()
	if err := record(os.Stdin, os.Stdout, *title); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

// style is the style sheet of the picture.
const style = `text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d4d4d4; white-space: pre }
.title { fill: #9aa0a6; text-anchor: middle }
.time { fill: #6a9955 }
.line { opacity: 0; animation: appear 0.2s forwards }
@keyframes appear { to { opacity: 1 } }
@media (prefers-reduced-motion: reduce) { .line { opacity: 1; animation: none } }
`

// line is a line of the output and the time, in seconds, at which it appears.
type line struct {
	text string
	at   float64
}

// record reads the output of a command from in, and writes the animated picture of it to
// out.
func record(in io.Reader, out io.Writer, title string) error {
	var lines []line
	widest, at := 0, 0.0
	scanner := bufio.NewScanner(in)
	for scanner.Scan() {
		text := strings.TrimRight(scanner.Text(), " ")
		var minutes, seconds float64
		if n, _ := fmt.Sscanf(text, "%f:%f", &minutes, &seconds); n == 2 {
			at = minutes*60 + seconds
		}
		lines = append(lines, line{text, at})
		widest = max(widest, len([]rune(text)))
	}
	if err := scanner.Err(); err != nil {
		return err
	}
	if len(lines) == 0 {
		return fmt.Errorf("there is no output to draw")
	}
	_, err := io.WriteString(out, picture(lines, widest, title))
	return err
}

// picture returns the SVG text of lines. widest is the length of the longest line, in
// characters.
func picture(lines []line, widest int, title string) string {
	width := int(float64(widest)*charWidth) + 2*margin
	height := titleBar + len(lines)*lineHeight + 2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">
<style>
`+style+`</style>
<rect width="100%%" height="100%%" rx="8" fill="#1e1e1e"/>
<text class="title" x="%d" y="20">%s</text>
`, width, height, width, height, escape(title), width/2, escape(title))
	for i, l := range lines {
		if l.text == "" {
			continue
		}
		y := titleBar + margin + (i+1)*lineHeight - 6
		text := escape(l.text)
		if stamp, rest, ok := strings.Cut(l.text, "  "); ok && strings.Contains(stamp, ":") {
			text = `<tspan class="time">` + escape(stamp) + `</tspan>` + escape("  "+rest)
		}
		fmt.Fprintf(&b, `<text class="line" style="animation-delay:%.1fs" x="%d" y="%d">%s</text>`+"\n", l.at, margin, y, text)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// escape returns text escaped for XML. It keeps white space.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder returns no errors
	return b.String()
}
