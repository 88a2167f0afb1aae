package zknode

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// paths are where things are.
type paths struct{ root string }

func (p paths) group() string             { return p.root + "/group" }
func (p paths) clock() string             { return p.root + "/clock" }
func (p paths) mark(memory string) string { return p.root + "/admitted-" + memory }
func (p paths) out(memory string) string  { return p.root + "/out-" + memory }
func (p paths) registers() string         { return p.root + "/registers" }
func (p paths) register(stripe int) string {
	return fmt.Sprintf("%s/registers/%04d", p.root, stripe)
}
func (p paths) leases() string           { return p.root + "/leases" }
func (p paths) lease(name string) string { return p.root + "/leases/" + encode(name) }
func (p paths) queues() string           { return p.root + "/queues" }
func (p paths) queue(name string) string { return p.root + "/queues/" + encode(name) }
func (p paths) clients() string          { return p.root + "/clients" }
func (p paths) client(c string) string   { return p.root + "/clients/" + c }

// longest bounds the part of a path that a name becomes. What lists names would otherwise
// run into the limit of a message much earlier.
const longest = 200

// encode makes any name a part of a path: letters, digits and some signs as they are, all
// other bytes as %41 and the like. A long name becomes its beginning and a hash; then only
// the znode's data has it whole.
func encode(name string) string {
	if name == "" {
		return "%"
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
		if b.Len() > longest {
			sum := sha256.Sum256([]byte(name))
			return b.String()[:longest-2*len(sum)-3] + "..." + hex.EncodeToString(sum[:])
		}
	}
	return b.String()
}

// plain are the bytes that stay. A dot is none of them, so that nothing looks like a long
// name, or like a path that means another one.
func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == ':' ||
		c == '@' || c == '+' || c == '='
}

// stripeOf is the number of a register by the last part of its path, or -1.
func stripeOf(part string) int {
	n, err := strconv.ParseUint(part, 10, 16)
	if err != nil || len(part) != 4 {
		return -1
	}
	return int(n)
}
