//go:build linux || darwin || freebsd

package command

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/fenlock/fenlock/node/secretfile"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// nodeFlags are the flags that choose the quorum group, for every subcommand that has
// to do with one.
type nodeFlags struct {
	urls      []string // of --node
	file      string   // of --nodes-file
	fileSet   bool     // --nodes-file was given
	local     bool     // --local: a lock of this machine only is meant
	prefix    string
	prefixSet bool // --prefix was given
}

// register adds the flags to the command.
func (f *nodeFlags) register(cmd *cobra.Command) {
	f.prefix = valkeynode.DefaultPrefix
	flags := cmd.Flags()
	flags.StringArrayVar(&f.urls, "node", nil, "`URL` of a node; repeat it for each node of the group")
	flags.Var(given{&f.file, &f.fileSet}, "nodes-file",
		"`file` with the nodes' URLs, one on a line, which only its owner may read")
	flags.BoolVar(&f.local, "local", false,
		"a lock of this machine only is meant, whatever "+nodesVariable+" says; "+nodesVariable+"="+localOnly+
			" means it as well")
	flags.Var(given{&f.prefix, &f.prefixSet}, "prefix",
		"`text` before the name in Valkey and Redis keys; '' for what other Redlock clients use")
}

// given is the value of a flag where an empty text is not the same as no flag.
type given struct {
	text *string
	set  *bool
}

// Set implements pflag.Value.
func (g given) Set(text string) error {
	*g.text, *g.set = text, true
	return nil
}

// String implements pflag.Value.
func (g given) String() string {
	if g.text == nil { // the zero value is asked, too
		return ""
	}
	return *g.text
}

// Type implements pflag.Value.
func (given) Type() string { return "string" }

// placed is the URL of a node, and where it was found: the name of that has nothing of
// the URL in it.
type placed struct{ url, place string }

// check refuses flags that exclude each other: the one that is not taken could be the one
// that was meant.
func (f nodeFlags) check() error {
	switch named := len(f.urls) > 0; {
	case f.local && (named || f.fileSet):
		return exitf(exitUsage, "--local is a lock of this machine only: it excludes --node and --nodes-file")
	case named && f.fileSet:
		return exitf(exitUsage, "--node and --nodes-file exclude each other: name all nodes in the same way")
	}
	return nil
}

// nodesOf returns the flags of a command, of which some have none.
func nodesOf(flags *pflag.FlagSet) (f nodeFlags) {
	if file := flags.Lookup("nodes-file"); file != nil {
		f.urls, _ = flags.GetStringArray("node")
		f.local, _ = flags.GetBool("local")
		f.file, f.fileSet = file.Value.String(), file.Changed
	}
	return f
}

// warn tells of passwords that others can read.
func (f nodeFlags) warn() {
	if slices.ContainsFunc(f.urls, mayHavePassword) {
		say("a password in --node can be read by every user of this machine, in the list of processes: put the URLs into a file, and name that with --nodes-file")
	}
}

// list returns the nodes' URLs, nil for a lock of this machine only. What is given as a flag
// is stronger than the environment; two of a kind are a mistake.
func (f nodeFlags) list() ([]placed, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	list, listSet := os.LookupEnv(nodesVariable)
	file, fileSet := os.LookupEnv(nodesFileVariable)
	if fileSet && list == withheld {
		listSet = false
	}
	// The user meant to name servers: a lock of this machine only would let every machine in.
	const empty = "%s is set, but empty: name %s, or %s for a lock of this machine only"
	switch {
	case f.local:
		return nil, nil
	case len(f.urls) > 0:
		return inOrder("--node", f.urls), nil
	case f.fileSet && f.file == "":
		return nil, exitf(exitUsage, empty, "--nodes-file", "the file with the nodes", "say --local")
	case f.fileSet:
		return readNodes("--nodes-file", f.file)
	case listSet && fileSet:
		return nil, exitf(exitUsage, "%s and %s are both set: unset one", nodesVariable, nodesFileVariable)
	case listSet && strings.TrimSpace(list) == "":
		return nil, exitf(exitUsage, empty, nodesVariable, "the nodes", "say "+localOnly)
	case fileSet && file == "":
		return nil, exitf(exitUsage, empty, nodesFileVariable, "the file with the nodes",
			"set "+nodesVariable+"="+localOnly+" instead")
	case listSet && list == withheld:
		return nil, exitf(exitUsage, "%s was withheld from this command by the fenlock run around it, because it has a password: name a file with the nodes (--nodes-file or %s), or run the outer one with --pass-nodes", nodesVariable, nodesFileVariable)
	case listSet && strings.TrimSpace(list) == localOnly:
		return nil, nil
	case listSet:
		return inOrder(nodesVariable, splitURLs(list)), nil
	case fileSet:
		return readNodes(nodesFileVariable, file)
	}
	return nil, nil
}

// meantLocal reports whether a lock of this machine only was asked for, where list has no nodes.
func (f nodeFlags) meantLocal() bool { return f.local || os.Getenv(nodesVariable) != "" }

func inOrder(source string, urls []string) (all []placed) {
	for i, url := range urls {
		all = append(all, placed{strings.TrimSpace(url), fmt.Sprintf("%s: node %d", source, i+1)})
	}
	return all
}

// readNodes reads a file of URLs. They may have passwords, so that no other user may read it.
func readNodes(source, path string) (all []placed, err error) {
	if strings.Contains(path, "://") {
		// With its password, which must not be repeated.
		return nil, exitf(exitUsage, "%s is a URL: it names a file with URLs in it", source)
	}
	text, err := secretfile.Read(path)
	if err != nil {
		return nil, exitf(exitUsage, "%s: %v", source, err)
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		// Only a whole line is a comment: a # in a URL is a mistake in its password.
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			all = append(all, placed{line, fmt.Sprintf("%s: line %d", path, number)})
		}
	}
	if len(all) == 0 {
		return nil, exitf(exitUsage, "%s: %s names no node: each has a line with its URL", source, path)
	}
	return all, nil
}
