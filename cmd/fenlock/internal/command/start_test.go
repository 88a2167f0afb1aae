//go:build linux || darwin || freebsd

package command

import (
	"fmt"
	"strings"
	"testing"
)

// What packages prepare when the program starts, each command pays for, one with a lock in a file
// as well. So no telemetry is there at all, and the rest prepares little before it is used.
func TestLittleIsPreparedAtTheStart(t *testing.T) {
	h := newHome(t, "GODEBUG=inittrace=1")
	r := h.start("fenlock", "run", "x", "--", "true")
	r.want(0)
	most := map[string]int{ // bytes, of packages whose path begins so
		"main":                   1 << 10,
		"github.com/fenlock/":    10 << 10,
		"github.com/valkey-io/":  12 << 10,
		"go.opentelemetry.io/":   0,
		"github.com/prometheus/": 0,
	}
	seen, all, light := 0, 0, false
	for line := range strings.Lines(r.stderr.String()) {
		var pkg string
		var at, took float64
		var bytes, allocs int
		if _, err := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &pkg, &at, &took, &bytes,
			&allocs); err != nil {
			continue
		}
		seen, all = seen+1, all+bytes
		if light = light || strings.HasSuffix(pkg, "/internal/light"); pkg == "os" && !light {
			t.Error("package light comes too late to save anything")
		}
		for prefix, limit := range most {
			if strings.HasPrefix(pkg, prefix) && bytes > limit {
				t.Errorf("%s prepares %d bytes when the program starts: more than %d", pkg, bytes, limit)
			}
		}
	}
	if seen < 50 || all > 5<<18 {
		t.Errorf("%d packages prepare %d bytes", seen, all)
	}
}
