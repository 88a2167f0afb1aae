package fence

import (
	"errors"
	"fmt"
	"strconv"
)

// Token is a fencing token: a number that a lock hands out with every
// acquisition and that only ever grows. An acquisition that starts after
// another one finished has the larger token, whatever clocks, pauses and
// networks did in between. A resource that remembers the largest token it has
// seen can therefore refuse a write that comes too late.
//
// The zero Token means "no token"; valid tokens are positive and below 2^53,
// so that a token passes unharmed through JSON numbers and Lua doubles.
type Token uint64

// MaxToken is the largest valid token, 2^53 - 1.
const MaxToken Token = 1<<53 - 1

// ErrInvalidToken is returned when a text or a number is not a valid token.
var ErrInvalidToken = errors.New("fence: not a fencing token (a whole number from 1 to 9007199254740991)")

// Parse reads a token from its decimal form, as in FENLOCK_TOKEN or in a
// header. The error matches ErrInvalidToken.
func Parse(s string) (Token, error) {
	// strconv accepts "+1"; a token has one form only.
	if s == "" || s[0] < '1' || s[0] > '9' {
		return 0, fmt.Errorf("%w: %.40q", ErrInvalidToken, s)
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || !Token(n).Valid() {
		return 0, fmt.Errorf("%w: %.40q", ErrInvalidToken, s)
	}
	return Token(n), nil
}

// Valid reports whether t is a token: positive and below 2^53.
func (t Token) Valid() bool { return t > 0 && t <= MaxToken }

// String returns the decimal form.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }

// MarshalText implements encoding.TextMarshaler with the decimal form. It
// fails for the zero Token and for one that is too large, so that "no token"
// is never written down as one.
func (t Token) MarshalText() ([]byte, error) {
	if !t.Valid() {
		return nil, fmt.Errorf("%w: %d", ErrInvalidToken, uint64(t))
	}
	return strconv.AppendUint(nil, uint64(t), 10), nil
}

// UnmarshalText implements encoding.TextUnmarshaler. On an error t is unchanged.
func (t *Token) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}

// MarshalJSON implements json.Marshaler with a JSON number.
func (t Token) MarshalJSON() ([]byte, error) { return t.MarshalText() }

// UnmarshalJSON implements json.Unmarshaler. It takes a JSON number without
// fraction and exponent, nothing else. On an error t is unchanged.
//
// A null is an error too. By encoding/json's convention it would leave t as it is. A variable that
// is decoded into twice would then carry the token of another message. Where a token may be
// missing, decode into a *Token: null makes that nil.
func (t *Token) UnmarshalJSON(data []byte) error { return t.UnmarshalText(data) }
