//go:build linux || darwin || freebsd

package command

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/fenlock/fenlock/node/secretfile"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/spf13/cobra"
)

const aclHelp = `Print the least permissions of a Valkey or Redis user, as a line for the server.

The line gives the user what fenlock needs for the locks with a prefix, and removes its
other permissions. It keeps the user's passwords, so you can apply it again after an
upgrade. Send it to each server of the group:

  fenlock acl --password-file /etc/fenlock/password | valkey-cli -h 10.0.0.1

valkey-cli prints OK. "ACL SAVE" or "CONFIG REWRITE" keeps the user for the next start,
or put the line into the server's configuration, with "user" for "ACL SETUSER".

With --password-file the line has a hash of the password, which replaces all passwords of
the user. Without it a new user cannot log in before it gets a password, with
ACL SETUSER NAME >PASSWORD.

fenlock acl sends nothing to any server. You may remove a permission together with its
purpose: without +config|get fenlock does not believe that a server with "appendfsync
always" is durable, and the server waits after a restart like any other. With it, the
user can read the passwords in the server's configuration (requirepass, masterauth).`

// aclOptions are the flags of acl.
type aclOptions struct {
	prefix, user string
	tag          string
	readOnly     bool
	selects      bool
	file         string
	fileSet      bool
}

func aclCommand() *cobra.Command {
	var o aclOptions
	cmd := &cobra.Command{
		Use:   "acl",
		Short: "Print the least permissions of a server's user",
		Long:  aclHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			line, err := o.line()
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), line)
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.prefix, "prefix", valkeynode.DefaultPrefix, "`text` before the name in keys, as in fenlock run")
	f.StringVar(&o.tag, "cluster-tag", "", "the hash `tag` of a valkey-cluster:// URL, its path; fenlock if it has none")
	f.StringVar(&o.user, "user", "lock-user", "`name` of the user")
	f.BoolVar(&o.readOnly, "read-only", false, "for a user who looks at locks and takes none")
	f.BoolVar(&o.selects, "select", false, "for URLs with the number of a database")
	f.Var(given{&o.file, &o.fileSet}, "password-file",
		"`file` with the password in its only line, which only its owner may read")
	return cmd
}

// line returns the command for the server.
func (o *aclOptions) line() (string, error) {
	if o.user == "" || strings.ContainsFunc(o.user,
		func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return "", exitf(exitUsage, "--user is %q: a user's name has a character at least, and no spaces", o.user)
	}
	permissions := valkeynode.Permissions
	if o.readOnly {
		permissions = valkeynode.ReadPermissions
	}
	prefix := o.prefix
	if o.tag != "" {
		n, err := valkeynode.Open("valkey-cluster://localhost/" + url.PathEscape(o.tag)) // which has the rule
		if err != nil {
			return "", exitf(exitUsage, "--cluster-tag: %v", err)
		}
		n.Close()
		prefix = "{" + o.tag + "}" + prefix
	}
	rules, err := permissions(prefix)
	if err != nil {
		return "", exitf(exitUsage, "--prefix: %s", flagNames.Replace(err.Error()))
	}
	words := []string{"ACL", "SETUSER", o.user, "on"}
	if o.fileSet {
		password, err := secretfile.ReadPassword(o.file)
		if err != nil {
			return "", exitf(exitUsage, "--password-file: %v", err)
		}
		words = append(words, "resetpass", fmt.Sprintf("#%x", sha256.Sum256([]byte(password))))
	} else {
		say("a new user cannot log in before it has a password: ACL SETUSER %s >PASSWORD, or --password-file", o.user)
	}
	// Not "reset", which takes the passwords away.
	words = append(append(words, "clearselectors", "resetkeys", "resetchannels", "-@all"), rules...)
	if o.selects {
		words = append(words, "+select")
	}
	for i, word := range words {
		words[i] = quoted(word)
	}
	return strings.Join(words, " "), nil
}

// quoted makes a word one that valkey-cli and a configuration take as it is.
func quoted(word string) string {
	if !strings.ContainsAny(word, `"'`) {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}
