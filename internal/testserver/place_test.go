//go:build linux

package testserver

import (
	"strings"
	"testing"
)

// A server in another place is started by what comes before its command, and listens there alone.
func TestElsewhere(t *testing.T) {
	defer Elsewhere(nil)
	Each(t, func(t *testing.T, kind Kind) {
		Elsewhere(func(testing.TB) Place {
			return Place{Host: "127.0.0.2", Via: []string{"sh", "-c", `echo "goes there"; exec "$@"`, "sh"}}
		})
		s := Start(t, kind)
		s.Kill()
		s.Restart()
		if host, _, _ := strings.Cut(s.Addr(), ":"); host != "127.0.0.2" || s.Do("PING") != "PONG" {
			t.Errorf("it is at %s", s.Addr())
		}
		if times := strings.Count(s.Log(), "goes there"); times != 2 {
			t.Errorf("%d of 2 times it was started there", times)
		}
		Elsewhere(nil)
		if s := Start(t, kind); !strings.HasPrefix(s.Addr(), "127.0.0.1:") {
			t.Errorf("later ones are at %s", s.Addr())
		}
	})
}
