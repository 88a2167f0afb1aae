package fenlock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
)

// Names, labels and configurations come from users, so anything may come. What
// is accepted has to be usable everywhere else, and what is refused has to be
// refused with ErrInvalid. scripts/fuzz.sh runs these for longer.

// FuzzName checks CheckName against the words of its comment, and Stripe against
// FNV-1a as its authors define it.
func FuzzName(f *testing.F) {
	for _, name := range []string{
		"", "a", "orders/42", "übung", "\xff", "a\xffb", "a\x00b", "a\nb", "\x7f", "\u0085", "\u009f", "\u00a0", "\u202e",
		"\ufffd",
		strings.Repeat("x", MaxNameLength), strings.Repeat("x", MaxNameLength+1),
		strings.Repeat("ü", MaxNameLength/2), strings.Repeat("x", MaxNameLength-1) + "ü", strings.Repeat("\xff", 600),
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := CheckName(name)
		if good := printable(name) && len(name) >= 1 && len(name) <= 512; good != (err == nil) {
			t.Errorf("%q: %v", name, err)
		}
		if err != nil && (!errors.Is(err, ErrInvalid) || !printable(err.Error()) || len(err.Error()) > 4*512+100) {
			t.Errorf("%q: the error %q is not one that can be printed and matches ErrInvalid", name, err)
		}
		h := uint64(14695981039346656037)
		for _, b := range []byte(name) {
			h = (h ^ uint64(b)) * 1099511628211
		}
		if got := node.Stripe(name); got != int(h&4095) {
			t.Errorf("Stripe(%q) = %d, want %d", name, got, h&4095)
		}
	})
}

// printable is what a name and a label may consist of, written down once more.
func printable(s string) bool {
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 || r < 0x20 || r >= 0x7f && r < 0xa0 {
			return false
		}
		s = s[size:]
	}
	return true
}

// FuzzHolder: whatever the label, a holder shows that and keeps its identity, alone or inside a
// request. A client that knows the identity can release the lease. What another library wrote is
// never shown as more than it is: values of other Redlock clients are secrets as a whole.
func FuzzHolder(f *testing.F) {
	const id = "0123456789abcdef0123456789abcdef"
	for _, s := range []string{
		"", "host/1", "a:b", "next:", "next:" + id + ":1", id, id + ":", id + ":label", id + "label",
		strings.ToUpper(id) + ":label",
		id + "-:label", "f81d4fae-7dec-11d0-a765",
		id[1:] + ":label", id + "0:label", "\xff", strings.Repeat("é", 16) + ":label",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		random := world{}.ID()
		h := node.Holder(string(random[:]) + ":" + s)
		if h.Label() != s {
			t.Errorf("a holder labelled %q has the label %q", s, h.Label())
		}
		secret, request := string(h[:node.IDLength]), node.Request{Name: "x", Holder: h, Token: 7}
		for _, v := range []any{h, &h, h.LogValue(), request, &request, []node.Holder{h}, map[string]node.Holder{"x": h}} {
			text := strings.ToLower(fmt.Sprintf("%[1]v %[1]s %[1]q %[1]x %[1]X % [1]x %[1]d %+[1]v %#[1]v %[1]T %50[1]s", v))
			if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) {
				t.Errorf("the identity is in %q", text)
			}
		}
		if got := fmt.Sprint(h); got != "holder("+s+")" {
			t.Errorf("a holder labelled %q is printed as %q", s, got)
		}
		foreign := node.Holder(s)
		switch label := foreign.Label(); {
		case label == "":
		case strings.HasPrefix(s, "next:"):
			if label != node.NextInQueue {
				t.Errorf("%q is shown as %q", s, label)
			}
		case len(s) != 33+len(label) || s[32:] != ":"+label ||
			strings.ContainsFunc(s[:32], func(r rune) bool { return !strings.ContainsRune(id[:16], r) }):
			t.Errorf("%q is shown as %q", s, label)
		}
	})
}

// namedNode is a node with a name for people and with something that is not
// for people.
type namedNode struct {
	Node
	name, password string
}

func (n namedNode) String() string { return n.name }
func (n namedNode) Engine() any    { return nil }

// FuzzConfig makes Lockers of any numbers: New refuses, or every relation that
// Config's comments promise holds in what is used.
func FuzzConfig(f *testing.F) {
	const ms, s, h = int64(time.Millisecond), int64(time.Second), int64(time.Hour)
	const most = 1<<63 - 1
	for _, c := range []struct {
		ttl, maxTTL, timeout, maxHold int64
		label, names                  string
	}{
		{0, 0, 0, 0, "", "a"},
		{0, 0, 0, 0, "label", "a,b,c"},
		{100 * ms, 0, 25 * ms, 0, "l", "a,b,c,d,e"},
		{99 * ms, 0, 0, 0, "", "a"},
		{100*ms + 1, 0, 0, 0, "", "a"},
		{30 * s, 30 * s, s, 30 * s, "", "a,b"},
		{31 * s, 30 * s, 0, 0, "", "a"},
		{24 * h, 24 * h, 6 * h, 24 * h, "", "a"},
		{24 * h, 24*h + 1, 0, 0, "", "a"},
		{s, s, 250*ms + 1, 0, "", "a"},
		{s, s, ms - 1, -1, "", "a"},
		{s, s, ms, -1, strings.Repeat("x", 128), "a"},
		{s, 0, 0, s - 1, "", "a"},
		{most, most, most, most, "", "a"},
		{most / 1e6 * 1e6, most, 0, most, "", "a"},
		{-most, -most, -most, -most, "", "a"},
		{0, 0, 0, 0, "", ""},
		{0, 0, 0, 0, "", "a,a"},
		{0, 0, 0, 0, "", "a,b,-"},
		{0, 0, 0, 0, "", ",,"},
		{0, 0, 0, 0, "", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"},
		{0, 0, 0, 0, "", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"},
		{0, 0, 0, 0, "a\nb", "a"},
		{0, 0, 0, 0, "\xff", "a"},
		{0, 0, 0, 0, strings.Repeat("x", 129), "a"},
	} {
		f.Add(c.ttl, c.maxTTL, c.timeout, c.maxHold, c.label, c.names)
	}
	f.Fuzz(func(t *testing.T, ttl, maxTTL, timeout, maxHold int64, label, names string) {
		const password = "swordfish"
		if strings.Contains(label+names, password) {
			return
		}
		config := Config{
			TTL: time.Duration(ttl), MaxTTL: time.Duration(maxTTL), NodeTimeout: time.Duration(timeout),
			MaxHold: time.Duration(maxHold), Label: label,
		}
		var missing, twice bool
		seen := map[string]bool{}
		for name := range strings.SplitSeq(names, ",") {
			switch {
			case names == "":
				continue
			case name == "-":
				config.Nodes = append(config.Nodes, nil)
				missing = true
				continue
			}
			config.Nodes = append(config.Nodes, namedNode{name: name, password: password})
			twice = twice || seen[name]
			seen[name] = true
		}
		l, err := New(config)
		if err != nil {
			if l != nil || !errors.Is(err, ErrInvalid) {
				t.Errorf("%v, with the Locker %v", err, l)
			}
			if strings.Contains(err.Error(), password) {
				t.Errorf("the node's password is in %q", err)
			}
		}
		// What the comments promise, each on its own.
		c := config
		if c.TTL == 0 {
			c.TTL = 10 * time.Second
		}
		if c.MaxTTL == 0 {
			c.MaxTTL = 30 * time.Second
		}
		good := len(c.Nodes) >= 1 && len(c.Nodes) <= 15 && !missing && !twice &&
			c.TTL >= 100*time.Millisecond && c.TTL <= c.MaxTTL && c.MaxTTL <= 24*time.Hour && ttl%ms == 0 &&
			(timeout == 0 || timeout >= ms && c.NodeTimeout <= c.TTL/4) &&
			(maxHold <= 0 || c.MaxHold >= c.TTL) && printable(label) && len(label) <= 128
		if maxHold == 0 && c.TTL > time.Hour {
			good = false // the default is an hour
		}
		if good != (err == nil) {
			t.Fatalf("%+v: %v", config, err)
		}
		if err != nil {
			return
		}
		used := l.config
		if used.TTL != c.TTL || used.MaxTTL != c.MaxTTL || len(used.Nodes) != len(c.Nodes) || used.Logger == nil ||
			timeout != 0 && used.NodeTimeout != c.NodeTimeout || maxHold != 0 && used.MaxHold != c.MaxHold ||
			label != "" && used.Label != label {
			t.Errorf("%+v was made of %+v", used, config)
		}
		if used.NodeTimeout < time.Millisecond || used.NodeTimeout > used.TTL/4 || used.MaxHold == 0 ||
			used.MaxHold > 0 && used.MaxHold < used.TTL ||
			used.Label == "" || !printable(used.Label) || len(used.Label) > 128 {
			t.Errorf("the defaults of %+v do not fit: %+v", config, used)
		}
	})
}

// FuzzExports parses any text. What is taken for an exported lock is the text of that lock and no
// other, and no text is in an error.
func FuzzExports(f *testing.F) {
	for _, e := range []exported{
		{name: "a", group: shortHash("n"), Exported: shell.Exported{Token: 1, Mark: 1, Terms: shell.Terms{TTL: 1}}},
		{name: strings.Repeat("ä", 200), group: shortHash(""), Exported: shell.Exported{Token: 7, Mark: fence.MaxToken - 1,
			Terms: shell.Terms{TTL: time.Hour, MaxHold: 1, AtLeast: time.Second, Shared: true}}},
	} {
		e.Holder = node.NewHolder([node.IDLength]byte([]byte("00112233445566778899aabbccddeeff")), time.Now(), 0, "me")
		text := encodeExport(e)
		if got, err := parseExport(" " + text + "\n"); err != nil || encodeExport(got) != text {
			f.Fatalf("%+v, %v", got, err)
		}
		f.Add(text)
		f.Add(text[:len(text)/2])
		f.Add(strings.Replace(text, "-1.", "-2.", 1))
		f.Add(text[:40] + "\n" + text[40:])
		fields, _ := exportEncoding.DecodeString(text[len(exportPrefix+exportVersion+"."):])
		for _, change := range [][2]string{{"\n1\n", "\n01\n"}, {"\n7\n", "\n+7\n"}, {"\nfalse\n", "\nFalse\n"},
			{"\ntrue\n", "\nyes\n"}} {
			changed := strings.Replace(string(fields[:len(fields)-16]), change[0], change[1], 1)
			f.Add(exportPrefix + exportVersion + "." + exportEncoding.EncodeToString([]byte(changed+shortHash(changed))))
		}
		e.Token, e.Mark = 9, 8
		f.Add(encodeExport(e))
		e.Mark = fence.MaxToken // no export raises that
		if _, err := parseExport(encodeExport(e)); err == nil {
			f.Fatal("the largest mark")
		}
		e.name = ""
		f.Add(encodeExport(e))
	}
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseExport(text)
		switch {
		case err == nil && (encodeExport(e) != strings.TrimSpace(text) || e.Mark < e.Token || e.TTL <= 0 ||
			CheckName(e.name) != nil):
			t.Errorf("%q: %+v", text, e)
		case err != nil && (!errors.Is(err, ErrInvalid) || len(text) > 40 && strings.Contains(err.Error(), text)):
			t.Errorf("%q: %v", text, err)
		}
	})
}
