package fencesql_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fencesql"
)

// What needs a database is tested in the module tests, on real ones.

func TestTableName(t *testing.T) {
	for name, valid := range map[string]bool{
		"":                               true,
		"fence":                          true,
		"_Fence2":                        true,
		"app.fence":                      true,
		strings.Repeat("x", 63):          true,
		strings.Repeat("x", 64):          false,
		"app." + strings.Repeat("x", 64): false,
		"2fence":                         false,
		"a.b.c":                          false,
		"app.":                           false,
		".fence":                         false,
		"fence\n":                        false,
		"fence; DROP TABLE orders":       false,
		`"fence"`:                        false,
		"fence--":                        false,
		"fence?":                         false,
		"fencé":                          false,
	} {
		guard := fencesql.Guard{Table: name}
		schema, err := guard.Schema()
		if (err == nil) != valid || (schema != "") != valid {
			t.Errorf("table %q: %q, %v", name, schema, err)
		}
		if !valid {
			// No transaction: it must not be touched before the name is known
			// to be one.
			if err := guard.Check(t.Context(), nil, "r", 1); err == nil {
				t.Errorf("table %q: Check took it", name)
			}
		}
	}
}

func TestInvalidTokenBeforeAnyStatement(t *testing.T) {
	for _, token := range []fence.Token{0, fence.MaxToken + 1} {
		err := fencesql.Guard{}.Check(t.Context(), nil, "r", token)
		if !errors.Is(err, fence.ErrInvalidToken) {
			t.Errorf("token %d: %v", uint64(token), err)
		}
	}
}
