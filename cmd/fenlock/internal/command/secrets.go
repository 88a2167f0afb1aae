//go:build linux || darwin || freebsd

package command

import (
	"net/url"
	"os"
	"slices"
	"strings"
)

// withheld is what a command finds where fenlock has a URL with a password. Not nothing. To a
// fenlock in the command, and to any program that wants the nodes, nothing would mean no nodes, and
// so a local lock.
const withheld = "withheld-because-of-a-password"

// commandEnvironment returns fenlock's environment without the passwords in it, which ends
// up in crash reports, logs and what a command starts in its turn; and without the address
// of --metrics, which a fenlock in the command could not have.
func commandEnvironment(passNodes bool) []string {
	all := os.Environ()
	for i, entry := range all {
		name, value, _ := strings.Cut(entry, "=")
		if !passNodes && strings.HasPrefix(name, variablePrefix) && strings.Contains(value, "://") && mayHavePassword(value) {
			all[i] = name + "=" + withheld
		}
	}
	return slices.DeleteFunc(all, func(entry string) bool {
		return strings.HasPrefix(entry, metricsVariable+"=") || strings.HasPrefix(entry, slotVariable+"=") // another lock's
	})
}

// mayHavePassword reports whether there may be a password in a list of URLs: unless each
// is understood, and has none.
func mayHavePassword(list string) bool {
	for _, raw := range splitURLs(list) {
		// A host that is a folder has %2F, which package url refuses.
		u, err := url.Parse(strings.NewReplacer("%2F", "-", "%2f", "-").Replace(strings.TrimSpace(raw)))
		if err != nil || u.Scheme == "" {
			return true
		}
		_, has := u.User.Password()
		// An @ further on may be the end of a password that was not escaped.
		if has || strings.Contains(u.Opaque+u.Path+u.RawQuery+u.Fragment, "@") {
			return true
		}
	}
	return false
}
