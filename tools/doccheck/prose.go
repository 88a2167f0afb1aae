package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/fenlock/fenlock/tools/internal/docs"
)

// The English of the documents: a sentence names its subject and has one thought. This is not a
// linter for prose from elsewhere, because vale has 50 dependencies, not all of which can be had
// everywhere.
const (
	mostWords = 25  // of a sentence
	mostWide  = 100 // characters of a line of text
)

// phrase is what a sentence must not say. In the pattern, a piece of code is "`".
type phrase struct {
	pattern *regexp.Regexp
	wrong   string
}

func says(pattern, wrong string) phrase { return phrase{regexp.MustCompile(pattern), wrong} }

// linkTarget is what does not show of a link. It cannot be broken.
var linkTarget = regexp.MustCompile(`\]\([^)]*\)`)

// short is what is no sentence, or says nothing: "Bounds.", "It tells."
var short = regexp.MustCompile(`^(\w+|(It|They|This|That) \w+)$`)

// nameless are the phrases that are wrong in a part of a sentence, too.
var nameless = []phrase{
	says(`(?i)\bwhoever\b`, `"whoever": name the client or the person`),
	says(`(?i)\b(some|no|any|every)body\b|(?-i)\b[Nn]o one\b`, `name it: another client, no waiter, every holder`),
}

var phrases = append([]phrase{
	says(`^[Ww]ho .*[^?]$|(?i)\b(by|of|for|to|from|with|than|as|or|but) who\b`,
		`"who" has no noun before it: name the client, the holder, the waiter`),
	says(`^(Held|Lost|Given|Taken|Left|Told|Asked|Called|Meant|Said|Released),`, `a participle is no subject`),
	says("^It is \\S+( \\S+)? that\\b", `name the subject, without "it is … that"`),
	says(`(?i)\b(the|a) (lost|late|new|dead|held|killed|stopped|other) one\b`, `repeat the noun instead of "one"`),
	says(`(?i)\bthat cannot be( is\b|,|$)`, `say "invalid"`),
	says(`(?i)\b(what is so|is so anyway|stands? again|gives? nothing|back what|knows? of each other|last of them|is away|in line)\b`,
		`a riddle: use the field's word`),
}, nameless...)

// checkProse checks the sentences of a document, and the width of its lines.
func (c *checker) checkProse(d *docs.Document) {
	for _, p := range d.Prose() {
		for i, line := range p.Lines {
			if !strings.HasPrefix(line, "![") && len([]rune(linkTarget.ReplaceAllString(line, "]"))) > mostWide {
				c.wrong(d, p.Line+i, "a line of text has more than %d characters", mostWide)
			}
		}
	}
	c.checkSentences(d)
}

func (c *checker) checkSentences(d *docs.Document) {
	for _, p := range d.Prose() {
		for _, sentence := range docs.Sentences(p.Text) {
			c.sentences++
			for _, wrong := range wrongWith(sentence, p.Running) {
				c.wrong(d, p.Line, "%s\n\t%s", sentence, wrong)
			}
		}
	}
}

// wrongWith returns what is wrong with a sentence. Running text has no headings, labels and cells
// of tables, which may be shorter than a sentence.
func wrongWith(sentence string, running bool) (all []string) {
	words := slices.DeleteFunc(strings.Fields(sentence), func(w string) bool {
		return !strings.ContainsFunc(w, func(r rune) bool { return r == '`' || unicode.IsLetter(r) || unicode.IsDigit(r) })
	})
	if len(words) > mostWords {
		all = append(all, fmt.Sprintf("%d words are more than %d", len(words), mostWords))
	}
	whole := strings.TrimRight(sentence, ".;")
	if running && whole != sentence && short.MatchString(whole) && whole != "Yes" && whole != "No" {
		all = append(all, "this is no sentence")
	}
	return append(all, phrasesIn(sentence, phrases)...)
}

func phrasesIn(sentence string, wrong []phrase) (all []string) {
	sentence = strings.TrimRight(sentence, ".;")
	for _, p := range wrong {
		if p.pattern.MatchString(sentence) {
			all = append(all, p.wrong)
		}
	}
	return all
}
