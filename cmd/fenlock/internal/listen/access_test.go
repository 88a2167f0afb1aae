package listen

import "testing"

func TestNewToken(t *testing.T) {
	a, b := NewToken(), NewToken()
	if a == b || len(a) < MinToken || len(a) < 26 {
		t.Errorf("%q, %q", a, b)
	}
}
