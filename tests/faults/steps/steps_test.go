//go:build linux

package steps

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// scripts puts the texts of an engine's operations together, as its package does.
func scripts(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	files, err := filepath.Glob("../../../node/respnode/internal/command/scripts/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[strings.TrimSuffix(filepath.Base(file), ".lua")] = string(text)
	}
	return texts
}

// whole puts in what a script asks for.
func whole(texts map[string]string, name string) string {
	text := texts[name]
	for _, common := range []string{"grant", "release", "renew", "admitted", "register", "promise", "queue", "shared",
		"call"} {
		text = strings.ReplaceAll(text, "--@"+common+"\n", texts[common])
	}
	return text
}

// played is a server that carries out requests, by scripts of which one may be broken.
type played struct {
	*testserver.Server
	texts          map[string]string
	stripe, replid string
	said           []string
}

func (p *played) do(script string, args ...string) {
	keys := []string{prefix + "red", registers, "fenlock-line:" + prefix + "red"}
	if script == "confirm" || script == "extend" {
		keys = keys[:2]
	}
	words := append([]string{"EVAL", whole(p.texts, script), fmt.Sprint(len(keys))}, keys...)
	p.said = append(p.said, p.Do(append(words, args...)...))
}

func (p *played) acquire(holder, proposal string) {
	p.do("acquire", holder, "50000", p.stripe, proposal, p.replid)
}
func (p *played) confirm(holder, number string) { p.do("confirm", holder, p.stripe, number, p.replid) }
func (p *played) extend(holder, floor, token string) {
	p.do("extend", holder, "50000", p.stripe, floor, p.replid, token)
}

// play returns what came of the check of what a server has carried out.
func play(t *testing.T, texts map[string]string, c Claims, requests func(p *played)) Result {
	t.Helper()
	server := testserver.StartWith(t, testserver.Kinds(t)[0], nil, "user harness on >harness ~* &* +@all")
	server.MarkAdmitted(valkeynode.DefaultPrefix, time.Minute)
	asked := 0
	ask := func(timeout time.Duration, args ...string) (string, error) {
		if asked++; asked == 1 {
			return "LOADING Valkey is loading the dataset in memory", nil // the recorder asks again
		}
		return server.Ask("harness", "harness", timeout, args...)
	}
	r, err := Record(context.Background(), []Server{{Addr: server.Addr, User: "harness", Password: "harness", Ask: ask}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop()
	p := &played{Server: server, texts: texts, stripe: fmt.Sprint(node.Stripe("red")),
		replid: server.Info("replication", "master_replid")}
	requests(p)
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Millisecond) { // until all was heard
		r.mu.Lock()
		n := r.nodes[0].events
		heard := len(n) > 0 && strings.Contains(fmt.Sprint(n[len(n)-1].line.args), "the end")
		r.mu.Unlock()
		if heard {
			break
		}
		if time.Now().After(end) {
			t.Fatal("not everything is heard")
		}
		server.Do("ECHO", "the end")
	}
	r.Stop()
	c.Names = []string{"red"}
	result := r.Check(c)
	t.Logf("answers %.400q: %d steps, %v", p.said, result.Steps, result.Refused)
	return result
}

// broken is a script with a rule that was changed, and what is said of the step that is refused.
type broken struct{ name, script, old, new, says string }

// refuses has the scripts as they are be steps of the model, and none of those that are broken.
func refuses(t *testing.T, all []broken, play func(t *testing.T, texts map[string]string) Result) {
	t.Run("as they are", func(t *testing.T) {
		if r := play(t, scripts(t)); r.Refused != nil || r.Untied != "" || r.Steps < 10 {
			t.Errorf("%+v", r)
		}
	})
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			texts := scripts(t)
			broken := strings.Replace(texts[c.script], c.old, c.new, 1)
			if broken == texts[c.script] {
				t.Fatal("nothing is broken")
			}
			texts[c.script] = broken
			if r := play(t, texts); r.Refused == nil || !strings.Contains(r.Refused.Error(), c.says) {
				t.Errorf("it says %.500v, and not %s", r.Refused, c.says)
			}
		})
	}
}

// TestScripts has the scripts for exclusive locks be steps of tokens.model, and none of those that
// are broken.
func TestScripts(t *testing.T) {
	refuses(t, []broken{
		{"a grant is the register as it is", "promise", "tonumber(register) + 1", "tonumber(register)",
			"(acquire n1 A2 12): the guard is false: (not (reached n r))"},
		{"a grant does not move the register", "acquire", "redis.call('HSET', KEYS[2], ARGV[3], text)", "",
			"the effect differs"},
		{"an acquire takes a lease that is another holder's", "grant", "'NX', ", "",
			"(acquire n1 A2 6): the guard is false: (free n)"},
		{"confirm does not compare the register", "confirm",
			"if tonumber(register) > number then\n  return {tonumber(register)}", "if false then\n  return 0",
			"(confirm n1 A1 7): the guard is false: (not (passed n t))"},
		{"a floor does not move the register", "renew", "if tonumber(ARGV[4]) > tonumber(register) then", "if false then",
			"its register is 9, in the model 12"},
		{"an extend gives a lease that is there another origin", "renew",
			"if not value or string.sub(value, 1, 5) == 'next:' then", "if true then",
			"(renew n1 k2 9 12): the guard is false: (oreached n x)"},
		{"a lease that is created has the origin 0", "renew", "origin = register", "origin = '0'",
			"(create n1 k4 0 0): the guard is false"},
		{"a forced release leaves the register as it is", "force", "tonumber(register) + 1", "tonumber(register)",
			"(force n1 A4 13): the guard is false: (not (reached n r))"},
		{"a server that has forgotten votes", "admitted", "mark[1] ~= known or mark[2] ~= '3'", "false",
			"(acquire n1 A5 30): the guard is false: (not (out n))"},
	}, func(t *testing.T, texts map[string]string) Result {
		return play(t, texts, Claims{Tokens: map[string][]uint64{"red": {9, 13}}}, func(p *played) {
			p.acquire("A", "5")
			p.acquire("B", "6")
			p.confirm("A", "9")
			p.extend("A", "12", "9")
			p.confirm("A", "7")
			p.do("release", "A", "", "0", "20", p.stripe)
			p.acquire("B", "3")
			p.extend("A", "0", "9")
			p.do("force", p.stripe, "0", p.replid)
			p.extend("B", "0", "13")
			p.Do("FLUSHALL")
			p.Do("HSET", registers, "maxttl", "60000")
			p.acquire("C", "30")
		})
	})
}

// TestAdmission has the recorder see that a server votes again: one alone, so that the model has
// no such admission.
func TestAdmission(t *testing.T) {
	texts := scripts(t)
	r := play(t, texts, Claims{}, func(p *played) {
		p.acquire("A", "5")
		p.Do("FLUSHALL")
		p.Do("HSET", registers, "candidate", "X")
		p.Do("EVAL", texts["admit"], "1", registers, p.replid, "X", "60000", "0", "", "0", "", p.replid, p.stripe, "5")
	})
	if r.Refused != nil || r.Lost != 1 || !strings.HasPrefix(r.Untied, "a majority had lost its memory") {
		t.Errorf("%+v", r)
	}
}

// TestUnheard has two of three servers promise a token. What the second one did was not heard. That
// is a step that is refused, unless the process of that server has ended since.
func TestUnheard(t *testing.T) {
	for _, run := range []string{"a", "b"} {
		is := func(run string) event {
			return event{store: &store{run: run, fields: map[string]string{}, leases: map[string]entry{}},
				line: line{args: []string{"?"}}}
		}
		call := func(lua bool, args ...string) event { return event{line: line{lua: lua, args: args}} }
		stripe := fmt.Sprint(node.Stripe("red"))
		r := &Recorder{nodes: []*record{{events: []event{is("a"),
			call(false, "EVAL", "-- acquire:", "1", prefix+"red", "A", "50000", stripe, "5"),
			call(true, "SET", prefix+"red", "A 5", "NX", "PX", "50000"),
			call(true, "HSET", registers, stripe, "5"),
			call(false, "EVAL", "-- extend:", "1", prefix+"red", "A", "50000", stripe, "0", "", "5"),
			call(true, "PEXPIRE", prefix+"red", "50000"),
		}}, {events: []event{is("a"), is(run)}}, {events: []event{is("a")}}}}
		if result := r.Check(Claims{Names: []string{"red"}}); (result.Refused == nil) != (run == "b") ||
			(result.Untied == "") != (run == "a") {
			t.Errorf("then it is %s: %+v", run, result)
		}
	}
}
