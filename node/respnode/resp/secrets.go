package resp

import (
	"slices"
	"strings"
	"sync"
)

// Secrets are the passwords of a node's connections, of the newest ones if they change.
// They are known so that no error has them. A nil *Secrets has none. Safe for concurrent
// use.
type Secrets struct {
	mu     sync.Mutex
	newest []string
}

// maxSecrets is how many are kept: a reply that was on its way is about the last one or
// the one before.
const maxSecrets = 4

// NewSecrets returns what has this password, or none if it is "".
func NewSecrets(password string) *Secrets {
	s := &Secrets{}
	s.Add(password)
	return s
}

// Add adds the password of a connection that is about to be made.
func (s *Secrets) Add(password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if password == "" || slices.Contains(s.newest, password) {
		return
	}
	if s.newest = append(s.newest, password); len(s.newest) > maxSecrets {
		s.newest = slices.Delete(s.newest, 0, 1)
	}
}

// shownOf is how many bytes of a password, at its beginning, are looked for: servers cut
// what they repeat.
const shownOf = 8

// In reports whether one of them is in another program's words.
func (s *Secrets) In(words string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.newest, func(secret string) bool {
		return strings.Contains(words, secret[:min(len(secret), shownOf)])
	})
}
