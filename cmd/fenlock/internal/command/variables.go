//go:build linux || darwin || freebsd

package command

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flag has a variable of the environment: --max-hold has FENLOCK_MAX_HOLD. What is
// said on the command line is stronger.

// fixed are the variables that are no flag's, or read elsewhere. The first ones are set by
// fenlock only.
var fixed = []string{nameVariable, tokenVariable, slotVariable, heldVariable, nodesVariable, nodesFileVariable}

const setByFenlock = 4

// alternatives are flags of which one replaces the other. A user that gives one on the command line
// does not want the other flag's variable.
var alternatives = [][2]string{{"wait", "no-wait"}, {"quiet", "verbose"},
	{"lead", "wait"}, {"lead", "no-wait"}, {"lead", "max-hold"}, {"lead", "at-least"}, {"lead", "shared"},
	{"lead", "slots"}, {"shared", "slots"}}

const manually = "by hand"

// byHand marks flags that have no variable, since they must not be said again and again
// by whatever runs there.
func byHand(cmd *cobra.Command, flags ...string) {
	for _, name := range flags {
		cmd.Flags().SetAnnotation(name, manually, []string{"true"})
	}
}

// variableOf returns the name of a flag's variable, "" if it has none.
func variableOf(f *pflag.Flag) string {
	name := plainVariable(f.Name)
	switch {
	case f.Name == "node", f.Name == "local", f.Name == "help", f.Name == "version", f.Hidden,
		f.Annotations[manually] != nil:
		return ""
	case slices.Contains(fixed, name) && name != nodesFileVariable:
		return ""
	}
	return name
}

func plainVariable(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// variables are those of a program's flags.
type variables struct {
	known  []string
	manual map[string]string // of flags that are said by hand: theirs would be the names
	whole  func() *cobra.Command
}

// readVariables has all subcommands read the variables of their flags before they do
// anything. A subcommand that is added later does not. What is made by whole has all
// subcommands, of which root may have one only.
func readVariables(root *cobra.Command, whole func() *cobra.Command) *variables {
	v := &variables{known: slices.Clone(fixed), manual: map[string]string{}, whole: whole}
	root.PersistentFlags().VisitAll(v.add)
	v.of(root)
	return v
}

func (v *variables) of(cmd *cobra.Command) {
	cmd.Flags().VisitAll(v.add)
	for _, sub := range cmd.Commands() {
		v.of(sub)
	}
	inner := cmd.RunE
	if inner == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		set, err := setFlags(cmd.Flags())
		if err == nil {
			err = become(cmd) // before anything is printed, or opened
		}
		if err == nil {
			v.tellUnknown()
			nodesOf(cmd.Flags()).warn()
			err = inner(cmd, args)
		}
		return namingVariables(err, set)
	}
}

func (v *variables) add(f *pflag.Flag) {
	if name := variableOf(f); name != "" && !slices.Contains(v.known, name) {
		v.known = append(v.known, name)
	} else if name == "" && f.Annotations[manually] != nil {
		v.manual[plainVariable(f.Name)] = f.Name
	}
}

// setFlags sets the flags that were not given from their variables. It returns these, by
// the flags' names.
func setFlags(flags *pflag.FlagSet) (set map[string]string, err error) {
	unwanted := map[string]bool{nodesFileVariable: true} // nodeFlags reads it
	for _, pair := range alternatives {
		for i, name := range pair {
			// --no-wait=false says no more than that.
			if f := flags.Lookup(name); f != nil && f.Changed && f.Value.String() != "false" {
				unwanted[plainVariable(pair[1-i])] = true
			}
		}
	}
	set = map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		name := variableOf(f)
		value, found := os.LookupEnv(name)
		if err != nil || name == "" || !found || f.Changed || unwanted[name] {
			return
		}
		if failed := flags.Set(f.Name, value); failed != nil {
			if invalid, is := errors.AsType[*pflag.InvalidValueError](failed); is {
				failed = invalid.Unwrap()
			}
			if f.Value.Type() == "bool" {
				failed = errors.New("true or false is wanted")
			}
			err = exitf(exitUsage, "%s is %.80q: %v", name, value, failed)
			return
		}
		set[f.Name] = name
	})
	return set, err
}

var longFlag = lazily(`--[a-z][a-z-]*`)

// lazily compiles an expression when it is first asked for: most locks need none.
func lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// namingVariables has an error about the usage name the variable that it is about, where it names a
// flag that was not given.
func namingVariables(err error, set map[string]string) error {
	var exit *exitError
	if len(set) == 0 || !errors.As(err, &exit) || exit.status != exitUsage {
		return err
	}
	return exitf(exitUsage, "%s", longFlag().ReplaceAllStringFunc(exit.message, func(flag string) string {
		if name := set[strings.TrimPrefix(flag, "--")]; name != "" {
			return name
		}
		return flag
	}))
}

// unknown returns each variable of the environment that looks like one of fenlock's and is none of
// these.
func (v *variables) unknown() (all []string) {
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, variablePrefix) && !slices.Contains(v.known, name) && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// tellUnknown tells of each variable that looks like one of fenlock's and is none. With a letter
// wrong, a limit is no limit, and servers are a file on this machine.
func (v *variables) tellUnknown() {
	if len(v.unknown()) == 0 {
		return
	}
	meant := quiet
	v = readVariables(v.whole(), nil) // it may be another subcommand's
	quiet = meant                     // what is made has its flag off
	unknown := v.unknown()
	slices.Sort(unknown)
	for _, name := range unknown {
		if name == plainVariable("local") {
			say("the environment variable %s means nothing: a lock of this machine only is %s=%s", name, nodesVariable,
				localOnly)
			continue
		}
		if flag := v.manual[name]; flag != "" {
			say("the environment variable %s means nothing: give --%s on the command line", name, flag)
			continue
		}
		say("the environment variable %.80s means nothing%s", name, didYouMean("", nearest(name, v.known[setByFenlock:])))
	}
}
