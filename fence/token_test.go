package fence_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"testing/quick"

	"github.com/fenlock/fenlock/fence"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text string
		want fence.Token // 0: refused
	}{
		{"1", 1},
		{"33", 33},
		{"9007199254740991", fence.MaxToken},
		{"9007199254740992", 0},
		{"18446744073709551615", 0},
		{"18446744073709551616", 0},
		{"18446744073709551617", 0}, // 1 modulo 2^64
		{strings.Repeat("9", 1000), 0},
		{"", 0},
		{"0", 0},
		{"-1", 0},
		{"+1", 0},
		{"01", 0},
		{" 1", 0},
		{"1 ", 0},
		{"1\n", 0},
		{"1,2", 0},
		{"1.0", 0},
		{"1e3", 0},
		{"1_000", 0},
		{"0x10", 0},
		{"١", 0}, // a digit, but not an ASCII one
		{"null", 0},
	} {
		got, err := fence.Parse(c.text)
		if got != c.want {
			t.Errorf("Parse(%.40q) = %d, want %d", c.text, got, c.want)
		}
		if refused := c.want == 0; errors.Is(err, fence.ErrInvalidToken) != refused || (err != nil) != refused {
			t.Errorf("Parse(%.40q): error %v", c.text, err)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("Parse of %d bytes: the error has %d", len(c.text), len(err.Error()))
		}
	}
}

func TestTokenBounds(t *testing.T) {
	for token, want := range map[fence.Token]bool{
		0: false, 1: true, fence.MaxToken: true, fence.MaxToken + 1: false, 1<<64 - 1: false,
	} {
		if token.Valid() != want {
			t.Errorf("Token(%d).Valid() = %v", uint64(token), !want)
		}
		text, err := token.MarshalText()
		if (err == nil) != want || errors.Is(err, fence.ErrInvalidToken) == want || (text != nil) != want {
			t.Errorf("Token(%d).MarshalText() = %q, %v", uint64(token), text, err)
		}
		body, err := json.Marshal(struct{ Token fence.Token }{token})
		if (err == nil) != want || errors.Is(err, fence.ErrInvalidToken) == want {
			t.Errorf("json.Marshal(Token(%d)) = %q, %v", uint64(token), body, err)
		}
	}
	// The reason for the bound: the numbers of JSON and of Lua are doubles.
	if float := float64(fence.MaxToken); fence.Token(float) != fence.MaxToken || float+1 == float {
		t.Error("MaxToken is not exact in a double")
	}
}

// A valid token comes back as it was, in each of its forms, and every number
// that is not a valid token comes back as an error.
func TestTokenRoundTrip(t *testing.T) {
	property := func(n uint64, shift uint8) bool {
		token := fence.Token(n >> (shift % 64)) // so that all magnitudes are met
		parsed, parseErr := fence.Parse(token.String())
		body, jsonErr := json.Marshal(token)
		if !token.Valid() {
			return parsed == 0 && errors.Is(parseErr, fence.ErrInvalidToken) && errors.Is(jsonErr, fence.ErrInvalidToken)
		}
		var text, number fence.Token
		return parseErr == nil && parsed == token &&
			text.UnmarshalText([]byte(token.String())) == nil && text == token &&
			jsonErr == nil && string(body) == token.String() &&
			json.Unmarshal(body, &number) == nil && number == token
	}
	if err := quick.Check(property, &quick.Config{MaxCount: 5000}); err != nil {
		t.Error(err)
	}
}

func TestTokenFromJSON(t *testing.T) {
	for _, c := range []struct {
		body string
		want fence.Token // 0: refused
	}{
		{`1`, 1},
		{` 9007199254740991 `, fence.MaxToken},
		{`9007199254740992`, 0},
		{`0`, 0},
		{`-1`, 0},
		{`1.0`, 0},
		{`1.5`, 0},
		{`1e3`, 0},
		{`1E0`, 0},
		{`"1"`, 0},
		{`""`, 0},
		{`null`, 0},
		{`true`, 0},
		{`[1]`, 0},
		{`{}`, 0},
	} {
		got := fence.Token(7)
		err := json.Unmarshal([]byte(c.body), &got)
		switch {
		case c.want != 0 && (err != nil || got != c.want):
			t.Errorf("%s: %d, %v", c.body, got, err)
		case c.want == 0 && !errors.Is(err, fence.ErrInvalidToken):
			t.Errorf("%s: error %v", c.body, err)
		case c.want == 0 && got != 7:
			t.Errorf("%s: refused, but the token became %d", c.body, got)
		}
	}

	// The way out for a message in which the token may be missing.
	message := struct{ Token *fence.Token }{new(fence.Token)}
	if err := json.Unmarshal([]byte(`{"Token": null}`), &message); err != nil || message.Token != nil {
		t.Errorf("null into a *Token: %v, %v", message.Token, err)
	}
}

func TestUnmarshalTextKeepsTokenOnError(t *testing.T) {
	token := fence.Token(7)
	if err := token.UnmarshalText([]byte("0")); !errors.Is(err, fence.ErrInvalidToken) || token != 7 {
		t.Errorf("token %d, error %v", token, err)
	}
}

// Parse accepts a text exactly if it is what a valid token prints; the naive
// version of that rule is arithmetic on numbers of any size.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"1", "0", "-1", "+1", "01", "1.0", "9007199254740991", "9007199254740992", "18446744073709551617", "", "null"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, err := fence.Parse(text)
		n, isNumber := new(big.Int).SetString(text, 10)
		want := isNumber && n.String() == text && n.Sign() > 0 && n.BitLen() <= 53
		switch {
		case want != (err == nil):
			t.Fatalf("Parse(%q) = %d, %v", text, token, err)
		case err == nil && (!token.Valid() || token.String() != text):
			t.Fatalf("Parse(%q) = %d", text, token)
		case err != nil && (token != 0 || !errors.Is(err, fence.ErrInvalidToken)):
			t.Fatalf("Parse(%q) = %d, %v", text, token, err)
		}
	})
}
