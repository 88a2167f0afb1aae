//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/fenlock/fenlock/internal/testserver"
)

// Normal returns an error unless the server and its network are as they began: this
// is what every fault has to leave behind.
func (m *Member) Normal() error {
	if off := m.Clock.Off(); off != 0 {
		return fmt.Errorf("the clock is off by %v", off)
	}
	if rules := m.Proxy.Rules(); rules != 0 {
		return fmt.Errorf("%d rules are left at the proxy", rules)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.Server().Pid()))
	if err != nil || m.Frozen() || strings.Contains(string(stat), ") T ") {
		return fmt.Errorf("not running: %q, %v, frozen %v", stat, err, m.Frozen())
	}
	var errs []error
	for _, c := range []struct{ command, want string }{
		{"CONFIG GET maxmemory", "[maxmemory 0]"},
		{"CONFIG GET maxmemory-policy", "[maxmemory-policy noeviction]"},
		{"CONFIG GET save", "[save ]"},
		{"CONFIG GET dbfilename", "[dbfilename dump.rdb]"},
		{"SET normal 1 PX 60000", "OK"},
		{"DEL normal", "1"},
	} {
		if got, err := m.Ask(Patience, strings.Fields(c.command)...); got != c.want || err != nil {
			errs = append(errs, fmt.Errorf("%s: %q, want %q, %v", c.command, got, c.want, err))
		}
	}
	users, err := m.Ask(Patience, "ACL", "LIST")
	if !strings.Contains(strings.Replace(users, "sanitize-payload ", "", 1), "user default on nopass ~* &* +@all ") {
		errs = append(errs, fmt.Errorf("users: %s, %v", users, err))
	}
	info, err := m.Ask(Patience, "INFO", "replication")
	if role := testserver.Field(info, "role"); role != "master" {
		errs = append(errs, fmt.Errorf("role %q, %v", role, err))
	}
	return errors.Join(errs...)
}
