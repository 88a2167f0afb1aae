//go:build linux || darwin || freebsd

package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// nearest returns the words that somebody may have meant who wrote this one, by cobra's
// measure for mistyped commands.
func nearest(typed string, words []string) []string {
	measure := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, word := range words {
		measure.AddCommand(&cobra.Command{Use: word, Run: func(*cobra.Command, []string) {}})
	}
	return measure.SuggestionsFor(typed)
}

// didYouMean is the end of a sentence that tells of suggestions. Many help nobody.
func didYouMean(dashes string, suggestions []string) string {
	if len(suggestions) == 0 || len(suggestions) > 3 {
		return ""
	}
	return "; did you mean " + dashes + strings.Join(suggestions, " or "+dashes) + "?"
}

// flagError makes an error of package pflag one of the usage.
func flagError(cmd *cobra.Command, err error) error {
	return exitf(exitUsage, "%v%s (see %s --help)", err, didYouMean("--", meant(cmd, err)), cmd.CommandPath())
}

// meant returns the flags of the command that somebody may have meant.
func meant(cmd *cobra.Command, err error) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	long := func(typed string) []string {
		if cmd.Flags().Lookup(typed) == nil {
			return nil
		}
		return []string{typed}
	}
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		return nearest(unknown.GetSpecifiedName(), names)
	case errors.As(err, &unknown): // -ttl
		return long(unknown.GetSpecifiedShortnames())
	case errors.As(err, &invalid): // -wait, which is -w with the value "ait"
		return long(invalid.GetFlag().Shorthand + invalid.GetValue())
	}
	return nil
}
