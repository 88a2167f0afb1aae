package fenlockcertmagic

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fenlock/fenlock"
)

// lockName returns the fenlock name of any name of certmagic's, another one for each. What a name
// of fenlock's cannot have is escaped as in a URL. What would be too long is a hash: "%sha256" is
// no escape.
func lockName(prefix, name string) string {
	escaped := prefix + "/" + escape(name)
	if len(escaped) <= fenlock.MaxNameLength {
		return escaped
	}
	sum := sha256.Sum256([]byte(name))
	return prefix + "/%sha256/" + hex.EncodeToString(sum[:])
}

// longestPrefix leaves room for a hash.
const longestPrefix = fenlock.MaxNameLength - len("/%sha256/") - 2*sha256.Size

func escape(name string) string {
	var b strings.Builder
	for len(name) > 0 {
		r, size := utf8.DecodeRuneInString(name)
		if r == '%' || unicode.IsControl(r) || r == utf8.RuneError && size == 1 {
			for _, c := range []byte(name[:size]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteString(name[:size])
		}
		name = name[size:]
	}
	return b.String()
}
