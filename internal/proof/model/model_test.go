package model

import (
	"errors"
	"strings"
	"testing"
)

// small is a model that is right. The tests change it.
const small = `(sort node n m)
(sort holder A B)
(sort number r s x)
(sort quorum Q P)
(order le number zero)
(family quorum in node q)
(axiom meet (exists (n) (and (in n Q) (in n P))))
(rel leased node holder)
(rel held holder)
(fun token holder number)
(cut register reached passed node number)
(define (free n) (forall (A) (not (leased n A))))
(init (not (leased n A)) (not (held A)) (= (reached n r) (= r zero)) (not (passed n r)))
(action acquire (n A r)
  (if (free n) (not (reached n r)))
  (add (leased n A))
  (put (register n) r))
(action hold (A Q r)
  (if (forall (n) (=> (in n Q) (leased n A))))
  (add (held A))
  (let (token A) r))
(promise alone (=> (and (leased n A) (leased n B)) (= A B)))
`

func TestParse(t *testing.T) {
	m, err := Parse("small", small)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Fragment(); err != nil {
		t.Error(err)
	}
	a := m.Action("acquire")
	if len(a.Updates) != 3 || len(a.Guard) != 2 || a.Pos.Line != 14 || a.Conjuncts[1].Text != "(not (reached n r))" {
		t.Errorf("%+v", a)
	}
	if got := m.Step(m.Action("hold")).Goals; len(got) != 0 {
		t.Errorf("an action that changes nothing that an invariant speaks of has %d goals", len(got))
	}
	if got := m.Step(a).Goals; len(got) != 1 ||
		got[0].Text != "(assert (not (forall ((n node) (A holder) (B holder)) (=> (and (leased+ n A) (leased+ n B)) (= A B)))))" {
		t.Errorf("%+v", got)
	}
}

// What is wrong is said, with its line. Nothing of it may be proved.
func TestParseErrors(t *testing.T) {
	for _, x := range []struct {
		name, old, new string
		line           int
		says           string
	}{
		{"an unknown relation", "(add (held A))", "(add (hold A))", 20, "hold is no part of the state"},
		{"an unknown relation in a formula", "(=> (in n Q) (leased n A))", "(=> (in n Q) (lesed n A))", 19,
			"lesed is not declared"},
		{"a sort used wrongly", "(promise alone (=> (and (leased n A)", "(promise alone (=> (and (leased A n)", 22,
			"A is of the sort holder, and has to be of node"},
		{"an argument too many", "(if (free n)", "(if (free n A)", 15, "free has 1 arguments, not 2"},
		{"a relation with an argument too few", "(=> (in n Q) (leased n A))", "(=> (in n Q) (leased n))", 19,
			"leased has 2 arguments, not 1"},
		{"a variable that is bound by nothing", "(not (reached n r)))\n  (add", "(not (reached n s)))\n  (add", 15,
			"s is bound by nothing"},
		{"a definition with a free variable", "(define (free n) (forall (A) (not (leased n A))))",
			"(define (free n) (not (leased n B)))", 12, "B is bound by nothing"},
		{"a term where a formula is needed", "(if (forall (n) (=> (in n Q) (leased n A))))", "(if (token A))", 19,
			"token A) is of the sort number"},
		{"a formula where a term is needed", "(let (token A) r)", "(let (token A) (held A))", 21, "has to be of number"},
		{"an equality of two sorts", "(= A B)))\n", "(= A n)))\n", 22, "has to be of holder"},
		{"a symbol that is changed twice", "(put (register n) r))", "(put (register n) r) (del (leased n *)))", 17,
			"leased is changed twice"},
		{"a relation of a cut that is changed alone", "(put (register n) r))", "(add (reached n r)))", 17,
			"changes with the cut register only"},
		{"a fixed relation that is changed", "(put (register n) r))", "(add (in n *)))", 17, "in is no part of the state"},
		{"a quantifier in an effect", "(add (held A))", "(add (held A) (exists (n) (leased n A)))", 20,
			"may not have a quantifier"},
		{"a star that is a parameter", "(add (leased n A))", "(add (leased *n A))", 16, "no new variable"},
		{"a variable that hides another one", "(promise alone (=> (and (leased n A) (leased n B)) (= A B)))",
			"(promise alone (=> (leased n A) (exists (n) (leased n A))))", 22, "bound already"},
		{"an axiom about the state", "(rel leased node holder)", "(rel leased node holder) (axiom bad (leased n A))", 8,
			"speaks of the state"},
		{"two things with one name", "(rel held holder)", "(rel leased holder)", 9, "leased is declared already, at small:8"},
		{"a name that reads like a variable", "(rel held holder)", "(rel held holder) (rel A1 node)", 9,
			"reads like a variable"},
		{"an unknown sort", "(rel held holder)", "(rel held houlder)", 9, "houlder is no sort"},
		{"an unknown declaration", "(promise alone", "(promised alone", 22, `"promised" is no declaration`},
		{"a parenthesis too few", "(rel held holder)", "(rel held holder", 9, "never closed"},
		{"a parenthesis too many", "(rel held holder)", "(rel held holder))", 9, "was not opened"},
		{"a relation that nothing changes", "(rel held holder)", "(rel held holder) (rel lost holder)", 9,
			"no action changes lost"},
		{"an effect that is none", "(add (held A))", "(sub (held A))", 20, `"sub" is no effect`},
		{"a guard that is none", "(if (free n) (not", "(when (free n) (not", 14, "(if formula...)"},
	} {
		t.Run(x.name, func(t *testing.T) {
			if strings.Count(small, x.old) != 1 {
				t.Fatalf("%q is not once in the model", x.old)
			}
			m, err := Parse("small", strings.Replace(small, x.old, x.new, 1))
			var e *Error
			if m != nil || !errors.As(err, &e) || e.Pos != (Pos{"small", x.line}) || !strings.Contains(e.Msg, x.says) {
				t.Errorf("%v: want line %d, %q", err, x.line, x.says)
			}
		})
	}
}

// A query outside of the decidable fragment is an error with its line, whatever a solver would say.
func TestFragment(t *testing.T) {
	for _, x := range []struct {
		name, old, new string
		line           int
		says           string
	}{
		{"a function from nodes to numbers beside a quorum for each", "(fun token holder number)",
			"(fun token holder number) (fun high node holder) (fun where number node)", 10, "node -> holder"},
		{"an invariant of the kind for all there is", "(= A B)))\n",
			"(= A B)))\n(lemma each (exists (n) (leased n A))) (lemma other (exists (A) (leased n A)))\n", 23, "holder -> node"},
		{"what is needed is refuted by what is given for each", "(= A B)))\n", "(= A B)))\n(lemma all (=> (forall (n) (leased n A)) (exists (B) (leased m B)))) (lemma back (exists (n) (leased n A)))\n", 23, "node -> node"},
		{"a guard with a circle", "(if (free n) (not",
			"(if (forall (m) (exists (x) (reached m x))) (forall (x) (exists (m) (reached m x))) (free n) (not", 15,
			"node -> number"},
		{"a circle in one formula", "(= A B)))\n", "(= A B)))\n(lemma next (exists (B) (=> (held A) (held B))))\n", 23,
			"holder -> holder"},
	} {
		t.Run(x.name, func(t *testing.T) {
			if strings.Count(small, x.old) != 1 {
				t.Fatalf("%q is not once in the model", x.old)
			}
			text := strings.Replace(small, x.old, x.new, 1)
			if strings.Contains(x.new, "(fun ") { // each is changed by something
				text = strings.Replace(text, "  (let (token A) r)", "  (let (token A) r) (let (high *) A) (let (where r) n)", 1)
				text = strings.Replace(text, "(action hold (A Q r)", "(action hold (n A Q r)", 1)
				text = strings.Replace(text, "(if (forall (n) (=> (in n Q) (leased n A))))", "(if)", 1)
			}
			m, err := Parse("small", text)
			if err != nil {
				t.Fatal(err)
			}
			err = m.Fragment()
			var e *Error
			if !errors.As(err, &e) || e.Pos.Line != x.line || !strings.Contains(e.Msg, x.says) {
				t.Errorf("%v: want line %d, %q", err, x.line, x.says)
			}
		})
	}
}

// A definition whose body binds a variable binds nothing of its arguments.
func TestDefinitionsBindNothingOfTheirArguments(t *testing.T) {
	m, err := Parse("small", strings.Replace(small, "(promise alone", "(define (other A) (exists (B) (and (held B) (not (= A B))))) (lemma l (=> (held B) (not (other B)))) (promise alone", 1))
	if err != nil {
		t.Fatal(err)
	}
	got := text(m.Invariant("l").Formula, nil)
	inner := got[strings.Index(got, "exists ((")+9:]
	inner = inner[:strings.Index(inner, " ")]
	if want := "(forall ((B holder)) (=> (held B) (not (exists ((X holder)) (and (held X) (not (= B X)))))))"; strings.ReplaceAll(got, inner, "X") != want || inner == "B" {
		t.Errorf("%s", got)
	}
}

func TestRunErrors(t *testing.T) {
	m, err := Parse("small", small)
	if err != nil {
		t.Fatal(err)
	}
	const head = "(sizes (node 3) (holder 2) (number 3))\n"
	for _, x := range []struct {
		name, run string
		says      string
	}{
		{"an unknown action", `(run "r" (steps (aquire n1 A 1)) (reach (leased n1 A)))`, "is no action"},
		{"a parameter too few", `(run "r" (steps (acquire n1 A)) (reach (leased n1 A)))`, "acquire has 3 parameters, not 2"},
		{"an element of another sort", `(run "r" (steps (acquire A n1 1)) (reach (leased n1 A)))`,
			"A is no element of the sort node"},
		{"an element that is not there", `(run "r" (steps (acquire n4 A 1)) (reach (leased n1 A)))`, "n4 is no element"},
		{"an unknown relation", `(run "r" (steps (acquire n1 A 1)) (reach (lost n1 A)))`, "lost is not declared"},
		{"a replacement of nothing", `(broken "b" (replace acquire (free m)) (steps) (breaks alone))`,
			"acquire has no part (free m)"},
		{"a change with a typing error", `(broken "b" (replace acquire (free n) (free A)) (steps) (breaks alone))`,
			"A is of the sort holder"},
		{"a promise that is not there", `(broken "b" (replace acquire (free n)) (steps) (breaks aloof))`,
			"aloof is no promise"},
		{"no change", `(broken "b" (steps) (breaks alone))`, "a broken rule has replace or action"},
		{"a size too few", `(sizes (node 3)) (run "r" (steps) (reach true))`, "1 to 26 of the sort holder"},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, err := m.Runs("small.runs", head+x.run)
			var e *Error
			if !errors.As(err, &e) || e.Pos != (Pos{"small.runs", 2}) || !strings.Contains(e.Msg, x.says) {
				t.Errorf("%v: want line 2, %q", err, x.says)
			}
		})
	}
}

func TestInstance(t *testing.T) {
	m, err := Parse("small", small)
	if err != nil {
		t.Fatal(err)
	}
	in, err := NewInstance(m, map[string]int{"node": 4, "holder": 2, "number": 3})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(in.Elements["quorum"], " "); got != "n1n2n3 n1n2n4 n1n3n4 n2n3n4" {
		t.Errorf("quorums of four nodes: %s", got)
	}
	if _, is, known := in.Fixed(m.Symbol("in"), []string{"n3", "n1n3n4"}); !is || !known {
		t.Error("n3 is not in n1n3n4")
	}
	if _, is, known := in.Fixed(m.Symbol("le"), []string{"2", "1"}); is || !known {
		t.Error("2 <= 1")
	}
}
