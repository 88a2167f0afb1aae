package fence_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/fence"
)

// tokenText is what a token looks like; how large it may be is for big.Int.
var tokenText = regexp.MustCompile(`^[1-9][0-9]*$`)

// FuzzText: a token has one text only, and every way to read and to write one
// agrees with Parse about it.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		"1", "33", "9007199254740991", "9007199254740992", "18446744073709551616", "18446744073709551617", "", "0", "00",
		"01", "-1", "+1", " 1", "1 ", "1\n",
		"1.0", "1e3", "1_000", "0x10", "١", "null", `"1"`, "[1]", "1,2", "\xff", "18446744073709551615",
		strings.Repeat("9", 50), strings.Repeat("9", 1000),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := fence.Token(0)
		if tokenText.MatchString(s) && !strings.HasSuffix(s, "\n") {
			if n, _ := new(big.Int).SetString(s, 10); n.Cmp(big.NewInt(1<<53)) < 0 {
				want = fence.Token(n.Uint64())
			}
		}
		got, err := fence.Parse(s)
		if got != want || (err == nil) != (want != 0) || err != nil && !errors.Is(err, fence.ErrInvalidToken) {
			t.Fatalf("Parse(%q) = %d, %v; want %d", s, got, err, want)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("Parse of %d bytes: the error has %d", len(s), len(err.Error()))
		}
		text := fence.Token(7)
		if err := text.UnmarshalText([]byte(s)); (err == nil) != (want != 0) || err == nil && text != want ||
			err != nil && (text != 7 || !errors.Is(err, fence.ErrInvalidToken)) {
			t.Errorf("UnmarshalText(%q): %d, %v; want %d", s, text, err, want)
		}
		// In JSON there may be space around it.
		in := struct{ Token fence.Token }{7}
		err = json.Unmarshal([]byte(`{"Token":`+s+`}`), &in)
		if want != 0 && (err != nil || in.Token != want) || err != nil && in.Token != 7 {
			t.Errorf("%q in JSON: %d, %v; want %d", s, in.Token, err, want)
		}
		if trimmed := strings.Trim(s, " \t\r\n"); err == nil && in.Token != 7 && trimmed != in.Token.String() &&
			!strings.ContainsAny(s, "{,") {
			t.Errorf("%q in JSON was read as %d", s, in.Token)
		}
		if want == 0 {
			return
		}
		out, err := json.Marshal(struct{ Token fence.Token }{want})
		if err != nil || string(out) != `{"Token":`+s+`}` || want.String() != s {
			t.Errorf("%q is written as %s, %v, and as %q", s, out, err, want)
		}
	})
}

// FuzzMarshal: no number is written that Parse would not read as the same one.
func FuzzMarshal(f *testing.F) {
	for magnitude := range 64 {
		n := uint64(1) << magnitude
		f.Add(n - 1)
		f.Add(n)
		f.Add(n | n/3) // and one in between
	}
	f.Add(uint64(1<<64 - 1))
	f.Fuzz(func(t *testing.T, n uint64) {
		token := fence.Token(n)
		good := n >= 1 && n < 1<<53
		text, err := token.MarshalText()
		if token.Valid() != good || (err == nil) != good ||
			err != nil && (text != nil || !errors.Is(err, fence.ErrInvalidToken)) {
			t.Fatalf("%d: valid %v, written as %q, %v", n, token.Valid(), text, err)
		}
		body, err := json.Marshal(struct{ Token fence.Token }{token})
		if (err == nil) != good || errors.Is(err, fence.ErrInvalidToken) == good ||
			good && string(body) != `{"Token":`+token.String()+`}` {
			t.Errorf("%d in JSON is written as %q, %v", n, body, err)
		}
		var in struct{ Token fence.Token }
		if err := json.Unmarshal(body, &in); good && (err != nil || in.Token != token) {
			t.Errorf("%s is read as %d, %v", body, in.Token, err)
		}
		if back, err := fence.Parse(token.String()); (err == nil) != good ||
			good && (back != token || string(text) != token.String()) {
			t.Errorf("%d is written as %q, and read as %d, %v", n, token, back, err)
		}
	})
}
