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
	for _, body := range []string{
		`9007199254740992`, `0`, `-1`, `1.0`, `1.5`, `1e3`, `1E0`, `"1"`, `""`, `null`, `true`, `[1]`, `{}`,
	} {
		got := fence.Token(7)
		if err := json.Unmarshal([]byte(body), &got); !errors.Is(err, fence.ErrInvalidToken) || got != 7 {
			t.Errorf("%s: error %v, and the token became %d", body, err, got)
		}
	}

	// The way out for a message in which the token may be missing.
	message := struct{ Token *fence.Token }{new(fence.Token)}
	if err := json.Unmarshal([]byte(`{"Token": null}`), &message); err != nil || message.Token != nil {
		t.Errorf("null into a *Token: %v, %v", message.Token, err)
	}
}
