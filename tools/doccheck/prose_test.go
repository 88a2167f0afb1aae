package main

import (
	"testing"

	"github.com/fenlock/fenlock/tools/internal/docs"
)

// Sentences of fenlock's documents before they were rewritten, each with something that the check
// finds.
func TestPlantedSentences(t *testing.T) {
	for _, planted := range []string{
		"It tells.",
		"Who waits is in line, and called.",
		"Held, nodes down, lost, cancelled are four different errors.",
		"`--new-servers` is said once, by who knows that nobody has ever used these servers.",
		"Who comes from flock finds its flags.",
		"Servers that give different numbers, or too few, are given back what they gave, and asked.",
		"A lost one costs up to a second.",
		"who does not has the lock alone",
		"It says when it begins to lead, and when it stands again.",
		"-x and -o say what is so anyway.",
		"never waited for, or held up, by who asks",
		"It is `fenlock run` that does not end with a loss.",
		"A value that cannot be is an error.",
		"NewServers is the word of whoever starts a group that none of its servers was ever used.",
		"what one of them has is to the other one leased to somebody alone",
		"Who finds it taken skips the turn.",
		"A node that is not admitted gives nothing.",
		"Bounds. A queue is forgotten 15 s after its waiter has asked.",
		"They need not know of each other.",
		"Nobody should have to believe us.",
		"In its first 31 ms it is lost if a majority is away for a second.",
		"A server is asked again, and what it said is thrown away, if the number that it gave is not the number that two others had given before it.",
		"| what | means |\n|---|---|\n| a lock | what somebody has |",
		"- a list: by whoever asks",
		"# What nobody knows",
		"**A label that somebody wrote.** The text after it is right.",
		"A line that goes on and on, until there is no more room for it on a page that has a hundred columns; it ends here.",
	} {
		c := new(checker)
		c.checkProse(docs.Parse("x.md", []byte(planted+"\n")))
		if len(c.problems) == 0 {
			t.Errorf("nothing is found in %q", planted)
		}
	}
}

// The same sentences after it.
func TestPlainSentences(t *testing.T) {
	for _, plain := range []string{
		"Failures are reported precisely.",
		"Waiters form a FIFO queue and are notified on release.",
		"Separate errors distinguish held, no quorum, lost and cancelled.",
		"Pass `--new-servers` once, and only if these servers have never been used.",
		"flock's flags work too.",
		"If the numbers differ or too few arrive, the waiter releases the grants and makes a normal attempt.",
		"A lost *notification* delays the next waiter by up to 1 s.",
		"Without `--shared` the lock is exclusive.",
		"`-x` and `-o` are accepted and ignored.",
		"The client that waits is notified. `fenlock ls` shows who holds a lock.",
		"**Who has the lock?** The holder has it.",
		"**Is it fair?** Yes. Waiters form a queue.",
		"# Who has it?",
		"    somebody's code\n\n`nobody` is a user.",
	} {
		c := new(checker)
		c.checkProse(docs.Parse("x.md", []byte(plain+"\n")))
		for _, p := range c.problems {
			t.Errorf("%q: %s", plain, p)
		}
	}
}
