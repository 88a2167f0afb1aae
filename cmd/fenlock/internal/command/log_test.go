//go:build linux || darwin || freebsd

package command

import "testing"

func TestPlain(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"fenlock: gave up: fenlock: \"x\" is held", `gave up: "x" is held`},
		{"mkdir /var/fenlock: no such file or directory", "mkdir /var/fenlock: no such file or directory"},
		{"two\nlines\t and \x1b[31mred\u009b", "two lines and [31mred"},
	} {
		if got := plain(test.in); got != test.want {
			t.Errorf("plain(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}
