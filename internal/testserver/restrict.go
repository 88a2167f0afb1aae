//go:build unix

package testserver

import (
	"slices"
	"strings"
)

// restriction is what a client that does not log in may do; nil: all.
var restriction []string

// Operator is the user that restricted servers have beside, who may do anything, with any
// password.
const Operator = "testserver-operator"

// Restrict has all servers that are started from now on give these permissions, in the words of ACL
// SETUSER, to clients without a login. These are the default user. What goes through the Server
// itself (Do, Info, MarkAdmitted, a replica's connection) may do anything. Servers with an
// append-only file are not restricted. It is for TestMain.
func Restrict(permissions ...string) { restriction = permissions }

// users are the lines of a configuration that make them.
func (s *Server) users() []string {
	// A server reads its append-only file as its default user, and leaves out what that
	// may not do.
	if restriction == nil || slices.Contains(s.config, "appendonly yes") {
		return nil
	}
	password := "nopass"
	for _, line := range s.config {
		if value, ok := strings.CutPrefix(line, "requirepass "); ok {
			password = ">" + value
		}
	}
	return []string{
		"user default on " + password + " " + strings.Join(restriction, " "),
		"user " + Operator + " on nopass ~* &* +@all",
		"masteruser " + Operator, "masterauth any",
	}
}

// operate is Ask as the user who may do anything.
func (s *Server) operate(args ...string) (string, error) {
	if s.users() == nil {
		return s.Ask("", "", callTimeout, args...)
	}
	return s.Ask(Operator, "any", callTimeout, args...)
}
