//go:build linux

package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"
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
	if m.Engine.normal != nil {
		if err := m.Engine.normal(m); err != nil {
			return err
		}
	}
	if m.operator != nil {
		// A connection that was there before a restart fails once.
		return again(HealLimit, func(context.Context) error { _, err := m.examine(Patience); return err })
	}
	return nil
}
