package changefeed_test

import (
	"regexp"
	"strings"
	"testing"
)

// bannedPhrases are always wrong in this repository: advertising, words with a plain
// equivalent, and turns of phrase that an earlier manner of writing has left behind. A
// phrase belongs here only if no good sentence would need it, which is why the list is
// short and stays short.
var bannedPhrases = []string{
	// Advertising.
	"battle-tested", "best-in-class", "blazing", "blazingly", "cutting-edge", "effortless", "effortlessly", "enterprise-grade",
	"game-changer", "hassle-free", "rock-solid", "seamless", "seamlessly", "state-of-the-art", "supercharge", "world-class",
	// Padding, and words that have a plain equivalent.
	"due to the fact", "it should be noted", "leverage", "leverages", "needless to say", "simply", "utilize", "utilizes",
	// The former idiom.
	"at hand", "begins anew", "for ever", "for the case that", "for the time patience", "hangs on", "in the place of",
	"is to be had", "nothing is known", "one behind the other", "sees to it", "so many of them", "stands for itself",
	// Other names for the terms of section 2 of DESIGN.md.
	"lease collection", "monitored collection", "pk range",
}

// A phrase counts in comments, strings and pages, also where a line ends between two of
// its words.
func TestTextHasNoBannedPhrase(t *testing.T) {
	if len(bannedPhrases) > 40 {
		t.Errorf("the list has %d phrases; remove some, because it may have 40", len(bannedPhrases))
	}
	for _, file := range filesWith(t, ".go", ".md") {
		if file == "phrases_test.go" {
			continue
		}
		words := strings.Join(strings.Fields(strings.ToLower(document(t, file))), " ")
		text := strings.ReplaceAll(words, " // ", " ") // joins the lines of a comment
		for _, phrase := range bannedPhrases {
			// The search for the bare text is much the faster one, but finds "for ever" in "for every".
			if strings.Contains(text, phrase) && regexp.MustCompile(`\b`+phrase+`\b`).MatchString(text) {
				t.Errorf("%s contains %q; say it in plain words", file, phrase)
			}
		}
	}
}
