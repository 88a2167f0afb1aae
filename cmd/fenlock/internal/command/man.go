//go:build linux || darwin || freebsd

package command

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const manPages = "man"

// manCommand writes the manual pages, for packages of distributions. cobra's own generator takes
// help for Markdown, which runs the lines of ours together, and brings a library for it.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    manPages + " DIR",
		Short:  "Write the manual pages into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, page := range pages(cmd.Root()) {
				file := filepath.Join(args[0], manName(page)+".1")
				if err := os.WriteFile(file, []byte(manPage(page)), 0o644); err != nil {
					return exitf(exitUsage, "%v", err)
				}
			}
			return nil
		},
	}
}

// pages are the commands that have a page: a command, and those below it.
func pages(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" {
			all = append(all, pages(sub)...)
		}
	}
	return all
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage returns a page in the language of man(7).
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	section := func(title string) { fmt.Fprintf(&b, ".SH %s\n", title) }
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q\n", strings.ToUpper(manName(cmd)), "fenlock "+version())
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short))
	section("SYNOPSIS")
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\\fB%s\\fR \\fICOMMAND\\fR\n", roff(cmd.CommandPath()))
	} else {
		fmt.Fprintf(&b, "\\fB%s\\fR%s\n", roff(cmd.CommandPath()), roff(strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath())))
	}
	section("DESCRIPTION")
	b.WriteString(manText(cmp.Or(cmd.Long, cmd.Short+".")))
	if cmd.HasAvailableSubCommands() {
		section("COMMANDS")
		for _, sub := range pages(cmd)[1:] {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(sub.CommandPath()), roff(sub.Short))
		}
	}
	section("OPTIONS")
	cmd.InheritedFlags() // which adds them to the flags
	cmd.Flags().VisitAll(func(f *pflag.Flag) { b.WriteString(manFlag(f)) })
	if cmd.HasExample() {
		section("EXAMPLES")
		b.WriteString(manExactly(cmd.Example))
	}
	section("SEE ALSO")
	var others []string
	for _, other := range pages(cmd.Root()) {
		if other != cmd {
			others = append(others, fmt.Sprintf("\\fB%s\\fR(1)", roff(manName(other))))
		}
	}
	b.WriteString(strings.Join(others, ",\n") + "\n")
	return b.String()
}

// manText sets help: a line above indented ones is a heading, those are set as they are,
// and all else is filled.
func manText(help string) string {
	var b strings.Builder
	lines := strings.Split(strings.TrimSpace(help), "\n")
	indented := func(i int) bool { return i < len(lines) && strings.HasPrefix(lines[i], " ") }
	heading := func(i int) bool { return !indented(i) && indented(i+1) && (i == 0 || lines[i-1] == "") }
	for i := 0; i < len(lines); i++ {
		switch {
		case indented(i):
			first := i
			for indented(i + 1) {
				i++
			}
			b.WriteString(manExactly(strings.Join(lines[first:i+1], "\n")))
		case lines[i] == "":
			if !heading(i + 1) {
				b.WriteString(".PP\n")
			}
		case heading(i):
			fmt.Fprintf(&b, ".SS %s\n", roff(lines[i]))
		default:
			b.WriteString(roff(lines[i]) + "\n")
		}
	}
	return b.String()
}

// manExactly sets lines as they are.
func manExactly(text string) string {
	var b strings.Builder
	b.WriteString(".nf\n")
	for line := range strings.Lines(text) {
		b.WriteString(roff(strings.TrimRight(line, "\n")) + "\n")
	}
	b.WriteString(".fi\n")
	return b.String()
}

// manFlag describes a flag.
func manFlag(f *pflag.Flag) string {
	if f.Hidden {
		return ""
	}
	name := fmt.Sprintf("\\fB%s\\fR", roff("--"+f.Name))
	if f.Shorthand != "" {
		name = fmt.Sprintf("\\fB%s\\fR, %s", roff("-"+f.Shorthand), name)
	}
	value, usage := pflag.UnquoteUsage(f)
	if value != "" {
		name += fmt.Sprintf(" \\fI%s\\fR", roff(value))
	}
	switch f.DefValue {
	case "", "0", "false", "[]", "0s":
	default:
		usage += fmt.Sprintf(" (default %s)", f.DefValue)
	}
	if variable := variableOf(f); variable != "" {
		usage += "; " + variable
	}
	return fmt.Sprintf(".TP\n%s\n%s\n", name, roff(usage))
}

// roff escapes a line of text.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
