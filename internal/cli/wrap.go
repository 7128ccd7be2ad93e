package cli

import (
	"io"
	"os"
	"regexp"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// wrap breaks a text into lines of at most width columns: between the items of
// a list if it can, else between words, and within a word, at punctuation, only
// if the word is wider than a line. What cannot be broken stays whole.
func wrap(s string, width int) []string {
	if text.StringWidthWithoutEscSequences(s) <= width {
		return []string{s}
	}
	lines := []string{""}
	add := func(part string) (fits bool) {
		last := &lines[len(lines)-1]
		joined := *last + part
		if text.StringWidthWithoutEscSequences(strings.TrimRight(joined, " ")) > width {
			return false
		}
		*last = joined
		return true
	}
	place := func(part string) bool { // on this line, or on the next
		if add(part) {
			return true
		}
		if text.StringWidthWithoutEscSequences(strings.TrimRight(part, " ")) > width {
			return false
		}
		lines = append(lines, part)
		return true
	}
	for _, item := range itemsOf(s) {
		if place(item) {
			continue
		}
		for _, word := range wordsOf(item) {
			if place(word) {
				continue
			}
			for _, piece := range piecesOf(word) {
				if !place(piece) {
					lines = append(lines, piece)
				}
			}
		}
	}
	if lines[0] == "" {
		lines = lines[1:]
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// longest returns the width of the longest part of a text.
func longest(split func(string) []string) func(string) int {
	return func(s string) int {
		most := 0
		for _, part := range split(s) {
			most = max(most, text.StringWidthWithoutEscSequences(strings.TrimRight(part, " ")))
		}
		return most
	}
}

// itemsOf splits a list behind its commas and semicolons.
func itemsOf(s string) []string { return splitBehind(s, itemEnds) }

// wordsOf splits a text behind its spaces. A date stays with its time, a number
// with its percent sign, and (in 3h) in one piece.
func wordsOf(s string) []string { return splitBehind(s, wordEnds) }

// piecesOf splits a text behind its spaces, and its words behind punctuation
// that has no digits on both sides.
func piecesOf(s string) []string {
	var pieces []string
	for _, word := range wordsOf(s) {
		begin, runes := 0, []rune(word)
		for i := 1; i+1 < len(runes); i++ {
			isPunctuation := strings.ContainsRune("/._-,=?&", runes[i])
			isInNumber := unicode.IsDigit(runes[i-1]) && unicode.IsDigit(runes[i+1])
			isBeforeBreak := runes[i+1] == ' ' || runes[i+1] == '/'
			if isPunctuation && !isInNumber && !isBeforeBreak {
				pieces = append(pieces, string(runes[begin:i+1]))
				begin = i + 1
			}
		}
		pieces = append(pieces, string(runes[begin:]))
	}
	return pieces
}

// splitBehind splits a text behind the matches of a pattern that it returns.
func splitBehind(s string, ends func(string) [][]int) []string {
	var parts []string
	begin := 0
	for _, match := range ends(s) {
		parts = append(parts, s[begin:match[1]])
		begin = match[1]
	}
	if begin < len(s) {
		parts = append(parts, s[begin:])
	}
	return parts
}

var (
	itemEnd       = regexp.MustCompile(`[,;] +`)
	wordEnd       = regexp.MustCompile(` +`)
	timeOrPercent = regexp.MustCompile(`^(\d\d:\d\d|%)`)
)

func itemEnds(s string) [][]int { return itemEnd.FindAllStringIndex(s, -1) }

func wordEnds(s string) [][]int {
	var ends [][]int
	for _, match := range wordEnd.FindAllStringIndex(s, -1) {
		afterDigit := match[0] > 0 && s[match[0]-1] >= '0' && s[match[0]-1] <= '9'
		glued := afterDigit && timeOrPercent.MatchString(s[match[1]:]) || strings.HasSuffix(s[:match[0]], "(in")
		if !glued {
			ends = append(ends, match)
		}
	}
	return ends
}

// WriteParagraph writes text behind a label. Lines of more than width columns
// are broken between words, and those after the first are indented to the text
// of the first. A width of 0, or one that leaves less than 20 columns for the
// text, means no limit.
func WriteParagraph(out io.Writer, width int, label, text string) {
	room := width - len(label)
	if width == 0 || room < 20 {
		io.WriteString(out, label+text+"\n")
		return
	}
	below := strings.Repeat(" ", len(label))
	for line := range strings.SplitSeq(text, "\n") {
		for _, part := range wrapWords(line, room) {
			io.WriteString(out, strings.TrimRight(label+part, " ")+"\n")
			label = below
		}
	}
}

// wrapWords is wrap for prose: between words only, so that a path or a URL can
// be copied.
func wrapWords(s string, width int) []string {
	var lines []string
	line := ""
	for _, word := range wordsOf(s) {
		if line != "" && text.StringWidthWithoutEscSequences(strings.TrimRight(line+word, " ")) > width {
			lines, line = append(lines, strings.TrimRight(line, " ")), ""
		}
		line += word
	}
	return append(lines, strings.TrimRight(line, " "))
}

// Columns returns how wide the terminal of stdout is, or 0 if it is none.
func Columns() int {
	columns, _, _ := term.GetSize(int(os.Stdout.Fd())) // -1 if it is none
	return max(columns, 0)
}
