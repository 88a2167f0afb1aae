//go:build linux || darwin || freebsd

package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
