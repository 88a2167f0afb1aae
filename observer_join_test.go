package fenlock_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/fenlock/fenlock"
)

// Whatever fields there are: each is told to all who have it, in their order, with what
// was told.
func TestJoinObservers(t *testing.T) {
	var heard []string
	// some returns an Observer that has the fields that are asked for.
	some := func(who string, has func(i int) bool) (o fenlock.Observer) {
		v := reflect.ValueOf(&o).Elem()
		for i := range v.NumField() {
			if has(i) {
				v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func(args []reflect.Value) []reflect.Value {
					heard = append(heard, fmt.Sprint(who, " ", len(args), " ", args[len(args)-1]))
					return nil
				}))
			}
		}
		return o
	}
	a := some("a", func(int) bool { return true })
	b := some("b", func(i int) bool { return i%2 == 0 })
	c := some("c", func(i int) bool { return i%3 == 0 })
	all := reflect.ValueOf(fenlock.JoinObservers(a, fenlock.Observer{}, b, c))
	alone := reflect.ValueOf(fenlock.JoinObservers(b))
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		if alone.Field(i).IsNil() != (i%2 != 0) {
			t.Errorf("%s is heard by nobody, and costs something, or is not heard", name)
		}
		var args []reflect.Value
		for k := range all.Field(i).Type().NumIn() {
			arg := reflect.New(all.Field(i).Type().In(k)).Elem()
			if arg.Kind() == reflect.Struct {
				arg.FieldByName(arg.Type().Field(0).Name).SetString("it")
			}
			args = append(args, arg)
		}
		heard = nil
		all.Field(i).Call(args)
		var want []string
		for _, who := range []struct {
			name string
			each int
		}{{"a", 1}, {"b", 2}, {"c", 3}} {
			if i%who.each == 0 {
				want = append(want, fmt.Sprint(who.name, " ", len(args), " ", args[len(args)-1]))
			}
		}
		if strings.Join(heard, "; ") != strings.Join(want, "; ") {
			t.Errorf("%s: heard %q; want %q", name, heard, want)
		}
	}
	if none := reflect.ValueOf(fenlock.JoinObservers()); !none.IsZero() {
		t.Error("of no observers, something is heard")
	}
}
