package examine

import (
	"strings"
	"testing"
)

func TestKnownHoles(t *testing.T) {
	for _, c := range []struct {
		product, version string
		tls              bool
		has, hasNot      string // parts of the finding; no finding if has is empty
	}{
		{"Valkey", "8.0.1", false, "CVE-2025-49844, CVE-2025-46817", "CVE-2024-31449"},
		{"Valkey", "8.0.1", false, "8.0.10 or later", "CVE-2026-56684"},
		{"Valkey", "8.0.1", true, "CVE-2026-56684", ""},
		{"Valkey", "8.0.0", false, "CVE-2024-31449", ""},
		{"Valkey", "8.0.9", false, "CVE-2026-63639", "CVE-2026-23479"},
		{"Valkey", "8.0.10", true, "", ""},
		{"Valkey", "8.1.3", false, "8.1.9 or later", "CVE-2024-46981"},
		{"Valkey", "9.1.1", true, "", ""},
		{"Valkey", "9.2.0", true, "", ""},
		{"Valkey", "10.0.0", true, "", ""},
		{"Valkey", "9.1.0-rc1", true, "CVE-2026-63639", ""},
		{"Valkey", "255.255.255", true, "", ""}, // a build from the newest sources
		{"Redis", "7.0.15", false, "CVE-2025-49844", ""},
		{"Redis", "7.4.10", false, "", ""},
		{"Redis", "7.4.10", true, "CVE-2026-81934", "CVE-2025"},
		{"Redis", "7.2.16", true, "", ""},
		{"Redis", "8.0.6", false, "8.8.1 or later", "CVE-2025-49844"}, // a series that has ended
		{"Redis", "8.2.2", false, "CVE-2026-23479", "CVE-2025-49844"},
		{"Redis", "8.10.1", true, "", ""},
		{"Dragonfly", "1.2.3", true, "", ""},
		{"Valkey", "unstable", true, "", ""},
		{"Valkey", "", true, "", ""},
		{"Valkey", "8.0", true, "", ""},
		{"Valkey", "8.99999999999999999999.1", true, "", ""},
	} {
		found := knownHoles(c.product, c.version, c.tls)
		if (len(found) == 0) != (c.has == "") {
			t.Errorf("%s %s: %v", c.product, c.version, found)
			continue
		}
		if len(found) == 0 {
			continue
		}
		text := found[0].Reason + " " + found[0].Advice
		if !strings.Contains(text, c.has) || c.hasNot != "" && strings.Contains(text, c.hasNot) {
			t.Errorf("%s %s: %q", c.product, c.version, text)
		}
		sentence(t, found[0])
	}
}

// The table can be read by the code, and is in order.
func TestHolesAreInOrder(t *testing.T) {
	for _, h := range holes {
		if h.ids == "" || h.what == "" || len(h.mended) == 0 {
			t.Errorf("%+v", h)
		}
		for product, list := range h.mended {
			last := [3]int{}
			for _, text := range strings.Fields(list) {
				v, ok := parseVersion(text)
				if !ok || v[0] < last[0] || v[0] == last[0] && v[1] <= last[1] {
					t.Errorf("%s, %s: %s is out of order, or a second one of its series", h.ids, product, text)
				}
				last = v
			}
		}
	}
}
