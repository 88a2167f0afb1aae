package fence_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/fenlock/fenlock/fence"
)

// What Parse and the others accept and refuse is in FuzzText and FuzzMarshal.

// The reason for the bound: the numbers of JSON and of Lua are doubles.
func TestMaxTokenIsExactInADouble(t *testing.T) {
	if float := float64(fence.MaxToken); fence.Token(float) != fence.MaxToken || float+1 == float {
		t.Error("MaxToken is not exact in a double")
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
