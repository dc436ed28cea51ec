package main

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// A package may have 5 % of sentences with more than longSentence words, and none with
// more than maxSentence.
const (
	longSentence = 25
	maxSentence  = 40
	longShare    = 0.05
)

// sentence is a sentence of a Go file.
type sentence struct {
	path  string
	line  int
	words int
}

// lengthFindings returns the sentences that are too long. Messages do not count for the
// share, because they are short.
func lengthFindings(sources []*source) []finding {
	counts := map[string]int{}
	long := map[string][]sentence{}
	for _, src := range sources {
		dir := path.Dir(src.path)
		for i, paragraph := range src.paragraphs {
			isComment := i < src.comments
			for _, s := range sentences(src.path, paragraph) {
				if isComment {
					counts[dir]++
				}
				if s.words > maxSentence || isComment && s.words > longSentence {
					long[dir] = append(long[dir], s)
				}
			}
		}
	}
	var findings []finding
	for dir, list := range long {
		share := float64(len(list)) / float64(counts[dir])
		for _, s := range list {
			switch {
			case s.words > maxSentence:
				findings = append(findings, finding{s.path, s.line, fmt.Sprintf(
					"Length: the sentence has %d words; at most %d are allowed", s.words, maxSentence)})
			case share > longShare:
				findings = append(findings, finding{s.path, s.line, fmt.Sprintf(
					"Share: the sentence has %d words; %.1f %% of the sentences in %s have over %d, and at most %.0f %% are allowed",
					s.words, 100*share, dir, longSentence, 100*longShare)})
			}
		}
	}
	return findings
}

var (
	// sentenceEnd matches a word that ends a sentence.
	sentenceEnd = regexp.MustCompile(`[.!?][)"'\]]*$`)
	// abbreviation matches a word whose period ends no sentence.
	abbreviation = regexp.MustCompile(`^\W*(e\.g|i\.e|etc|vs|cf|approx)\.$`)
	// word matches a field that counts as a word.
	word = regexp.MustCompile(`\w`)
)

// sentences splits a paragraph.
func sentences(path string, paragraph []line) []sentence {
	var list []sentence
	current := sentence{path: path}
	for _, l := range paragraph {
		for field := range strings.FieldsSeq(l.text) {
			if word.MatchString(field) {
				if current.words == 0 {
					current.line = l.number
				}
				current.words++
			}
			if sentenceEnd.MatchString(field) && !abbreviation.MatchString(field) && current.words > 0 {
				list = append(list, current)
				current = sentence{path: path}
			}
		}
	}
	if current.words > 0 {
		list = append(list, current)
	}
	return list
}
