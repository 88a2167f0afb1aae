package examine

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/node"
)

// holesAsOf is the day up to which the table below is complete, as far as it goes. It is not a
// scanner. It has the holes since version 7 by which a program that reaches a server may take it
// over or stop it.
const holesAsOf = "2026-09-21"

// hole is one, or several that were mended together.
type hole struct {
	ids  string
	what string
	tls  bool // only where the server speaks TLS
	// In which versions it is mended, by product, one for each series. A series that is
	// older than the newest of them and not listed has it for good.
	mended map[string]string
}

const (
	productValkey = "Valkey"
	productRedis  = "Redis"
)

// holes are in the order in which they were mended, the newest first.
var holes = []hole{
	// CVE record CVE-2026-81934; release notes of Redis 8.8.2 (August 2026).
	{ids: "CVE-2026-81934", what: "any program that reaches its TLS port may run programs on it", tls: true,
		mended: map[string]string{productRedis: "7.2.16 7.4.11 8.2.9 8.4.6 8.6.6 8.8.2 8.10.1"}},
	// Release notes of Valkey 8.0.10, 8.1.9, 9.0.5, 9.1.1 (2026-07-21).
	{ids: "CVE-2026-56684", what: "a user who may use CLIENT KILL may run programs on it", tls: true,
		mended: map[string]string{productValkey: "7.2.14 8.0.10 8.1.9 9.0.5 9.1.1"}},
	// Release notes of Valkey 8.0.10 and the others, and of Redis 7.4.10 and the others
	// of 2026-07-24, which have no number for it.
	{ids: "CVE-2026-63639", what: "a user who may use RESTORE may run programs on it",
		mended: map[string]string{productValkey: "7.2.14 8.0.10 8.1.9 9.0.5 9.1.1",
			productRedis: "7.2.15 7.4.10 8.2.8 8.4.5 8.6.5 8.8.1"}},
	// Release notes of Valkey 7.2.13, 8.0.8 (withdrawn, so 8.0.9), 8.1.7, 9.0.4 and of Redis
	// 7.4.9, 8.2.6, 8.4.3, 8.6.3 (2026-05-05). In the series 7.2 of Redis it is mended in
	// the next release that is known to have it.
	{ids: "CVE-2026-23479, CVE-2026-25243, CVE-2026-23631",
		what: "a user who may send scripts, blocking commands or RESTORE may run programs on it",
		mended: map[string]string{productValkey: "7.2.13 8.0.9 8.1.7 9.0.4 9.1.0",
			productRedis: "7.2.15 7.4.9 8.2.6 8.4.3 8.6.3 8.8.0"}},
	// Release notes of Valkey 7.2.11, 8.0.6, 8.1.4 and of Redis 7.2.11, 7.4.6, 8.0.4,
	// 8.2.2 (2025-10-03).
	{ids: "CVE-2025-49844, CVE-2025-46817",
		what:   "a user who may send scripts, as every user of a node may, may run programs on it",
		mended: map[string]string{productValkey: "7.2.11 8.0.6 8.1.4 9.0.0", productRedis: "7.2.11 7.4.6 8.0.4 8.2.2"}},
	// Release notes of Valkey 7.2.10, 8.0.4, 8.1.3 and of Redis 7.2.10, 7.4.5, 8.0.3 (2025-07).
	{ids: "CVE-2025-32023, CVE-2025-48367",
		what:   "a user who may use PFADD may run programs on it, and any program that reaches it may keep others out",
		mended: map[string]string{productValkey: "7.2.10 8.0.4 8.1.3 9.0.0", productRedis: "7.2.10 7.4.5 8.0.3"}},
	// Release notes of Valkey 7.2.9, 8.0.3, 8.1.1 and of Redis 7.2.8, 7.4.3 (2025-04-23).
	{ids: "CVE-2025-21605", what: "any program that reaches it, without a password, may use up its memory",
		mended: map[string]string{productValkey: "7.2.9 8.0.3 8.1.1", productRedis: "7.2.8 7.4.3 8.0.0"}},
	// Release notes of Valkey 7.2.8, 8.0.2 and of Redis 7.2.7, 7.4.2 (2025-01-06).
	{ids: "CVE-2024-46981", what: "a user who may send scripts may run programs on it",
		mended: map[string]string{productValkey: "7.2.8 8.0.2", productRedis: "7.2.7 7.4.2"}},
	// Release notes of Valkey 7.2.7, 8.0.1 and of Redis 7.2.6, 7.4.1 (2024-10-02).
	{ids: "CVE-2024-31449", what: "a user who may send scripts may run programs on it",
		mended: map[string]string{productValkey: "7.2.7 8.0.1", productRedis: "7.2.6 7.4.1"}},
}

// knownHoles says which holes a version has, and which version has none of them.
func knownHoles(product, version string, tls bool) (found []node.Finding) {
	has, ok := parseVersion(version)
	if !ok {
		return nil
	}
	var ids []string
	worst, mendedIn := "", [3]int{}
	for _, h := range holes {
		mended, affected := h.mendedIn(product, has)
		if !affected || h.tls && !tls {
			continue
		}
		if ids = append(ids, h.ids); worst == "" || h.ids == "CVE-2025-49844, CVE-2025-46817" {
			worst = h.what // every user of a node can use that one
		}
		if slices.Compare(mended[:], mendedIn[:]) > 0 {
			mendedIn = mended
		}
	}
	if ids == nil {
		return nil
	}
	// A note, because a distribution mends holes without another version number: a warning would
	// never go away.
	return []node.Finding{node.Found("known-holes", node.Note, "%s %s has known holes (%s): %s.",
		product, version, strings.Join(ids, ", "), worst).
		Do("Upgrade it to %d.%d.%d or later, and then the next server, when this one votes again. This list is of %s; a distribution may have mended them without another version number.",
			mendedIn[0], mendedIn[1], mendedIn[2], holesAsOf)}
}

// mendedIn returns whether a version has the hole, and the first later one without it: of
// its series if there is one, else the newest.
func (h hole) mendedIn(product string, has [3]int) (mended [3]int, affected bool) {
	for _, text := range strings.Fields(h.mended[product]) {
		mended, _ = parseVersion(text)
		if mended[0] == has[0] && mended[1] == has[1] {
			break
		}
	}
	return mended, h.mended[product] != "" && slices.Compare(has[:], mended[:]) < 0
}

// parseVersion reads "8.0.1". What follows, as in "8.1.0-rc1", does not count.
func parseVersion(text string) (v [3]int, ok bool) {
	parts := strings.SplitN(text, ".", 3)
	if len(parts) != 3 {
		return v, false
	}
	for i, part := range parts {
		digits := part
		if end := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			digits = part[:end]
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
}
