//go:build linux

package steps

import (
	"strings"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver/probe"
)

func (p *played) join(holder, proposal string, place ...string) {
	p.do("acquireshared", append([]string{holder, "50000", p.stripe, proposal, p.replid}, place...)...)
}
func (p *played) share(holder, floor, token string) {
	p.do("extendshared", holder, "50000", p.stripe, floor, p.replid, token)
}
func (p *played) release(holder string) { p.do("release", holder, "", "0", "20", p.stripe) }

// TestSharedScripts has the scripts be steps of shared.model where holders share a name, and none
// of those that are broken.
func TestSharedScripts(t *testing.T) {
	client := strings.Repeat("d", 32)
	refuses(t, []broken{
		{"a reader gets the register as it is", "promise", "tonumber(register) + 1", "tonumber(register)",
			"(first n1 A7 12): the guard is false: (not (reached n r))"},
		{"a reader is let in beside a holder that has the name alone", "acquireshared", "local s = read(value)\nlocal",
			"local s = read(value) or read(nil)\nlocal", "(first n1 A10 26): the guard is false: (or (sharing n) (free n))"},
		{"a reader that comes is promised the number of before the epoch", "acquireshared", "origin = s.epoch",
			"origin = '5'", "(join n1 A4 5): the guard is false: (not (epassed n r))"},
		{"a reader that comes begins another epoch", "acquireshared", "if s.epoch == '0' then", "if true then",
			"(first n1 A3 6): the guard is false: (not (epoch n))"},
		{"readers have slots of other numbers", "shared", "slots(r.holder) ~= own", "false",
			"(join n1 A7 9): the guard is false: (agree n H)"},
		{"an acquire takes the leases that are readers'", "grant", "'NX', ", "",
			"(acquire n1 A2 10): the guard is false: (free n)"},
		{"confirm makes an epoch", "confirm", "if s.epoch ~= '0' then", "if true then",
			"those who share the name are promised 25, in the model 0"},
		{"what a reader confirms is not promised to others", "confirm", "s.epoch = ARGV[3]", "s.epoch = s.epoch",
			"those who share the name are promised 5, in the model 9"},
		{"a reader confirms without its lease", "confirm", "find(s, ARGV[1])", "find(s, ARGV[1]) or {}",
			"(confirm n1 A2 9): the guard is false: (leased n H)"},
		{"confirm of a reader does not compare the register", "confirm", "elseif tonumber(register) > number then",
			"elseif false then", "(confirm n1 A1 7): the guard is false: (not (passed n t))"},
		{"an epoch outlives its readers, as a reservation is there", "shared",
			"if string.sub(r.holder, 1, 5) ~= 'next:' then", "if true then",
			"(first n1 A5 13): the guard is false: (not (reached n r))"},
		{"an epoch goes on though a floor is past it", "extendshared", "if tonumber(ARGV[4]) > tonumber(s.epoch) then",
			"if false then", "those who share the name are promised 9, in the model 0"},
		{"an extension ends an epoch that no floor has passed", "extendshared",
			"if tonumber(ARGV[4]) > tonumber(s.epoch) then", "if true then",
			"those who share the name are promised 0, in the model 13"},
		{"a floor does not move the register", "extendshared", "if tonumber(ARGV[4]) > tonumber(register) then\n  redis.call",
			"if false then\n  redis.call", "its register is 9, in the model 12"},
		{"an extension of a reader gives its lease another origin", "extendshared", "' ' .. origin .. ' '",
			"' ' .. register .. ' '", "(renew n1 k3 9 0): the guard is false: (oreached n (owner k) x)"},
		{"a reader's lease that is created has the origin 0", "extendshared", "origin = register", "origin = '0'",
			"(create n1 k9 0 0): the guard is false"},
		{"a reader's lease is created beside a holder that has the name alone", "extendshared", "return 'lost'",
			"alone = false", "(create n1 k3 25 0): the guard is false: (or (free n)"},
		{"a holder's lease is created beside readers'", "renew", "not s or promised(s)", "not s",
			"(create n1 k12 26 0): the guard is false: (or (free n)"},
		{"a server that has forgotten votes", "admitted", "mark[1] ~= known or mark[2] ~= '3'", "false",
			"the guard is false: (not (out n))"},
	}, func(t *testing.T, texts map[string]string) Result {
		given := map[string][]uint64{"red": {9, 5, 9, 13, 14, 25, 26}}
		return play(t, texts, Claims{Shared: true, Tokens: given}, func(p *played) {
			probe.Dial(t, p.Addr()).Answers("SUBSCRIBE fenlock-wake:"+client, "*3")
			p.join("A", "5")
			p.join("B", "6")
			p.confirm("A", "9")
			p.confirm("A", "7")
			p.join("C", "8")
			p.join(strings.Repeat("a", 32)+"@1/3:", "8") // has one of three slots
			p.acquire("D", "10")
			p.confirm("D", "9")
			p.share("A", "0", "9")
			p.share("B", "12", "5") // its floor ends the epoch
			p.join("F", "8")
			p.release("C")
			p.share("C", "0", "9")
			p.release("C")
			p.release("F")
			p.Do("ZADD", "fenlock-line:"+prefix+"red", "1", client+":01:") // wants to share the name
			p.release("B")
			p.release("A") // what is left is a reservation
			p.join("G", "8")
			p.do("force", p.stripe, "0", p.replid)
			p.share("G", "0", "14")
			p.release("G")
			p.acquire("E", "25")
			p.join("J", "8")
			p.share("A", "0", "9")
			p.extend("E", "0", "25")
			p.share("E", "0", "25") // others may share it from now on
			p.confirm("E", "25")    // is carried out late
			p.join("H", "8")
			p.release("E")
			p.extend("E", "0", "25")
			p.Do("FLUSHALL")
			p.Do("HSET", registers, "maxttl", "60000")
			p.join("I", "40")
		})
	})
}
