//go:build linux || darwin || freebsd

package watchdog

import "testing"

// What is no message of this program's is read without a panic, and to no more than there is.
func FuzzReceive(f *testing.F) {
	var c coder
	o := Order{Job: &Job{Args: []string{"a"}}, Answer: &Answer{}}
	o.fields(&c)
	f.Add(c.text)
	f.Add(c.text[:9])
	f.Fuzz(func(t *testing.T, text []byte) {
		var o Order
		var n News
		o.fields(&coder{text: text, reading: true})
		n.fields(&coder{text: text, reading: true})
	})
}
