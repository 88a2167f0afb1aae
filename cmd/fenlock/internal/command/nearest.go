//go:build linux || darwin || freebsd

package command

import (
	"strings"

	"github.com/spf13/cobra"
)

// nearest returns the words that a user may have meant by this one, by cobra's measure for mistyped
// commands.
func nearest(typed string, words []string) []string {
	measure := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, word := range words {
		measure.AddCommand(&cobra.Command{Use: word, Run: func(*cobra.Command, []string) {}})
	}
	return measure.SuggestionsFor(typed)
}

// didYouMean is the end of a sentence that tells of suggestions. Many are no help.
func didYouMean(dashes string, suggestions []string) string {
	if len(suggestions) == 0 || len(suggestions) > 3 {
		return ""
	}
	return "; did you mean " + dashes + strings.Join(suggestions, " or "+dashes) + "?"
}
