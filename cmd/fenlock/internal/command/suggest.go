//go:build linux || darwin || freebsd

package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError makes an error of package pflag one of the usage.
func flagError(cmd *cobra.Command, err error) error {
	hint := didYouMean("--", meant(cmd, err))
	if invalid, is := errors.AsType[*pflag.InvalidValueError](err); is {
		// What package strconv and package time say names functions of Go.
		ofGo := errors.As(err, new(*strconv.NumError)) || strings.HasPrefix(invalid.Unwrap().Error(), "time: ")
		expected := map[string]string{"bool": "true or false", "int": "a whole number in range",
			"duration": "a time, such as 90s or 1m30s"}
		if words, ok := expected[invalid.GetFlag().Value.Type()]; ok && ofGo {
			err = fmt.Errorf("--%s: %q is not %s", invalid.GetFlag().Name, invalid.GetValue(), words)
		}
	}
	return exitf(exitUsage, "%v%s (see %s --help)", err, hint, cmd.CommandPath())
}

// meant returns the flags of the command that a user may have meant.
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
