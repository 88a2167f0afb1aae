package fenlock

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
)

// MaxExportLength bounds the text of Lock.Export, in bytes.
const MaxExportLength = 1536

// exported is what the text of Lock.Export says.
type exported struct {
	shell.Exported
	name  string
	group string // what the nodes are called, hashed
}

// The text is a version, and fields that are separated by line feeds, which no name and no label
// has, in base64. The last field is a hash of all before it: for texts that were damaged or
// cut off on their way, not for forgers. Who can make a text knows the holder, and needs none.
const (
	exportPrefix  = "fenlock-export-"
	exportVersion = "1"
)

var exportEncoding = base64.RawURLEncoding.Strict()

func encodeExport(e exported) string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	fields := strings.Join([]string{
		e.name, string(e.Holder), number(int64(e.Token)), number(int64(e.Mark)),
		number(int64(e.TTL)), number(int64(max(e.MaxHold, 0))), number(int64(e.AtLeast)), strconv.FormatBool(e.Shared), e.group,
	}, "\n") + "\n"
	return exportPrefix + exportVersion + "." + exportEncoding.EncodeToString([]byte(fields+shortHash(fields)))
}

// parseExport checks all that can be checked without a Locker. Its errors match ErrInvalid, and tell nothing of
// the text.
func parseExport(text string) (e exported, err error) {
	text = strings.TrimSpace(text)
	if len(text) > MaxExportLength {
		return e, invalidf("this is no exported lock: it has %d bytes, at most %d are possible", len(text), MaxExportLength)
	}
	version, body, ok := strings.Cut(strings.TrimPrefix(text, exportPrefix), ".")
	switch {
	case !strings.HasPrefix(text, exportPrefix):
		return e, invalidf("this is no exported lock: Lock.Export makes such texts")
	case ok && version != exportVersion:
		return e, invalidf("the lock was exported by another version of fenlock: this one adopts version %s of the text", exportVersion)
	}
	damaged := invalidf("the exported lock is damaged: a part of the text is missing, or was changed")
	raw, err := exportEncoding.DecodeString(body)
	fields := strings.Split(string(raw), "\n")
	if !ok || err != nil || len(fields) != 10 {
		return e, damaged
	}
	hash := fields[9]
	if strings.TrimSuffix(string(raw), hash) == string(raw) || shortHash(strings.TrimSuffix(string(raw), hash)) != hash {
		return e, damaged
	}
	number := func(field string, least, most int64) (n int64) {
		n, failed := strconv.ParseInt(field, 10, 64)
		if failed != nil || n < least || n > most {
			err = damaged
		}
		return n
	}
	e.name, e.Holder, e.group = fields[0], node.Holder(fields[1]), fields[8]
	e.Token = fence.Token(number(fields[2], 1, int64(fence.MaxToken)))
	e.Mark = fence.Token(number(fields[3], int64(e.Token), int64(fence.MaxToken)-1)) // it was raised past that
	e.TTL = time.Duration(number(fields[4], 1, math.MaxInt64))
	e.MaxHold = time.Duration(number(fields[5], 0, math.MaxInt64))
	e.AtLeast = time.Duration(number(fields[6], 0, math.MaxInt64))
	e.Label, e.Slots, e.Shared = e.Holder.Label(), e.Holder.Slots(), fields[7] == strconv.FormatBool(true)
	switch {
	case err != nil, CheckName(e.name) != nil, !madeHere(e.Holder), encodeExport(e) != text: // each lock has one text
		return exported{}, damaged
	}
	return e, nil
}

// madeHere reports whether node.NewHolder, or node.Given, makes such holders, and a Locker such labels.
func madeHere(h node.Holder) bool {
	if len(h) <= node.IDLength || strings.Trim(string(h[:node.IDLength]), "0123456789abcdef") != "" {
		return false
	}
	return (h[node.IDLength] == '@' || h[node.IDLength] == '#') && h.Label() != "" && checkText("", h.Label(), MaxLabelLength) == nil
}

// groupHash tells groups of nodes apart, whatever their order is.
func (c *Config) groupHash() string {
	var names []string
	for _, n := range c.Nodes {
		name := n.String()
		if named, ok := n.Engine().(interface{ Member() string }); ok {
			name = named.Member()
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return shortHash(strings.Join(names, "\n"))
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}
