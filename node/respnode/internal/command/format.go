package command

import (
	"strconv"

	"github.com/fenlock/fenlock/node/engine"
)

// format is the number of what this program keeps on a server, and of the newest that it knows. It
// is a field of the registers, written at admission: the scripts admit.lua and admitted.lua have
// the number too. A program that changes what is kept there counts on, and writes the larger number
// in the same step in which it changes it. The lease that several share has no number of its own.
// Older programs take it for an exclusive lease of a stranger, and leave it as it is.
const format = 3

// formatField is the field of the registers.
const formatField = "format"

// checkFormat returns why a server whose registers have this format cannot be used, or
// nil. None is 1. Admission turns older ones into this one.
func checkFormat(text string) error {
	found, err := strconv.Atoi(text)
	if text == "" || err == nil && found >= 1 && found <= format && text == strconv.Itoa(found) {
		return nil
	}
	// A newer program may have promised what this one does not know.
	if err == nil && found > format {
		return engine.Misconfiguredf("the registers on this server have the format %d, and this program knows formats up to %d: a newer fenlock wrote them; upgrade this program", found, format)
	}
	return quoteValue(engine.Misconfiguredf(
		"the registers on this server have a format that no fenlock wrote: set the field %q of their hash right",
		formatField), text)
}
