package examine

import (
	"strings"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
)

// reached finds who else may listen, or come in.
func (s Server) reached() (found []node.Finding) {
	loopback, private := s.Reached.near()
	if !s.Reached.TLS && !loopback {
		severity, where := node.Note, "a private network"
		if !private {
			severity, where = node.Warning, "networks of others"
		}
		what := "locks can be read and changed"
		if s.Reached.Password {
			what = "the password can be read"
		}
		found = append(found, node.Found("plain-text", severity, "The connection goes through %s without TLS: on the way %s.",
			where, what).
			Do("Use valkeys:// (docs/valkey.md), unless the network itself is encrypted."))
	}
	open := !s.Reached.Password
	if s.Close != nil && s.Close.Account != nil && s.Close.Account.NoPassword {
		open = true
	}
	if open && !loopback {
		found = append(found, node.Found("no-password", node.Warning,
			"The server asks for no password: any program that reaches it can release and fake locks.").
			Do("Give it a user with a password for the locks, turn off the default user, and put the password into FENLOCK_NODES (docs/valkey.md)."))
	}
	return found
}

// permissions finds what the user lacks, and why the server would refuse it all the same.
func (s Server) permissions() (found []node.Finding) {
	p, user := s.Allowed, s.Reached.User
	if len(p.Disabled) > 0 {
		found = append(found, node.Found("disabled-command", node.Error,
			"The server does not have %s, which a node needs: disabled or renamed.", strings.Join(p.Disabled, ", ")).
			Do("Remove the lines rename-command for them from the server's configuration, and restart it. A managed server may not allow that: take another one."))
	}
	missing := p.Missing
	if s.Close != nil && s.Close.Notify != nil && !p.OnlyLooks {
		missing = append(missing[:len(missing):len(missing)], "+subscribe", "&"+command.NotifyPrefix+"*")
	}
	switch {
	case len(missing) > 0 && len(p.Missing) == 0:
		found = append(found, node.Found("permissions", node.Warning, "The user %q may not subscribe, so that it cannot be notified when a lock is free: it polls, and may never find the lock free.", user).
			Do("ACL SETUSER %s %s, and save it.", user, strings.Join(missing, " ")))
	case len(missing) > 0:
		found = append(found, node.Found("permissions", node.Error, "The user %q may not do all that a node needs.", user).
			Do("ACL SETUSER %s %s, and save it (fenlock acl prints the whole line).", user, strings.Join(missing, " ")))
	case s.CannotTell != nil:
		found = append(found, node.Found("permissions-unknown", node.Note,
			"Whether the user %q may do all that a node needs cannot be told: %v.", user, s.CannotTell).
			Do("Allow it what fenlock acl prints."))
	case p.OnlyLooks:
		found = append(found, node.Found("permissions-unknown", node.Note, "The user %q may look and take no lock. Whether the user of those who do may do all that they need cannot be told from here.", user))
	}
	if p.Refuses != nil {
		found = append(found, node.Found("writes", node.Error, "The server answers, and refuses to write: %v.", p.Refuses).
			Do("Mend what it says. The server's log has more."))
	}
	return found
}

// account finds what the user could do without, and what the server needs a user for.
func (s Server) account() (found []node.Finding) {
	if a := s.Close.Account; a != nil { // a user that may not ask is limited
		found = append(found, node.Found("permissions-more", node.Note, "The user %q may do more than a node needs (%.60q on the keys %.60q): with its password one can take the server over, or flush it.",
			s.Reached.User, a.Commands, a.Keys).
			Do("Make a user for the locks (fenlock acl)."))
	}
	if d := s.Close.Default; d != nil && s.AOF &&
		(!strings.HasPrefix(d.Commands, "+@all") || strings.Contains(d.Commands, " -") || d.Keys != "~*") {
		found = append(found, node.Found("replay", node.Warning, "The server reads its append-only file as the default user, which may not do all (%.60q on the keys %.60q): in a restart it leaves out what that user may not do, without a word.",
			d.Commands, d.Keys).
			Do("ACL SETUSER default off ~* &* +@all, and save it: no client can log in as it then (docs/valkey.md, “Files that are read in part”)."))
	}
	return found
}
