//go:build linux

package steps

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/node/valkeynode"
)

// The keys of fenlock, as docs/engines.md and the scripts have them.
const (
	registers = "fenlock-registers:" + valkeynode.DefaultPrefix
	prefix    = valkeynode.DefaultPrefix
)

// store is what a server has: the fields of its registers, and its leases.
type store struct {
	run, repl string // of the server
	fields    map[string]string
	leases    map[string]entry // by key
}

// entry is the value of a lease, and when it ends on the server's clock.
type entry struct {
	value string
	ends  float64 // ms
}

// only is the value without those that share the name and do not fit.
func (e entry) only(fits func(l lease) bool) entry {
	if !strings.HasPrefix(e.value, shared) {
		return e
	}
	var kept []string
	for i, line := range strings.Split(e.value, "\n") {
		_, all := split(shared + "0\n" + line)
		if i == 0 || len(all) == 0 || fits(all[0]) {
			kept = append(kept, line)
		}
	}
	e.value = strings.Join(kept, "\n")
	return e
}

// until is the lease without those that ended by a moment of the server's clock.
func (e entry) until(at float64) entry { return e.only(func(l lease) bool { return at < l.ends }) }

// dump is what a snapshot is made by.
const dump = `-- steps: all that is here
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
	local kind = redis.call('TYPE', key).ok
	if kind == 'string' then
		all[#all+1] = 'lease ' .. key .. ' ' .. string.format('%.0f', redis.call('PEXPIRETIME', key)) .. ' ' .. redis.call('GET', key):gsub('\n', '\\')
	elseif kind == 'hash' then
		local fields = redis.call('HGETALL', key)
		for i = 1, #fields, 2 do
			all[#all+1] = 'field ' .. key .. ' ' .. fields[i] .. ' ' .. fields[i+1]
		end
	end
end
local info = redis.call('INFO')
all[#all+1] = 'server ' .. string.match(info, 'run_id:(%w+)') .. ' ' .. string.match(info, 'master_replid:(%w+)')
return table.concat(all, '\n')`

func parseStore(text string) (*store, error) {
	s := &store{fields: map[string]string{}, leases: map[string]entry{}}
	for text := range strings.Lines(text) {
		words := strings.SplitN(strings.TrimSuffix(text, "\n"), " ", 4)
		switch {
		case len(words) == 3 && words[0] == "server":
			s.run, s.repl = words[1], words[2]
		case len(words) == 4 && words[0] == "field":
			if words[1] == registers {
				s.fields[words[2]] = words[3]
			}
		case len(words) == 4 && words[0] == "lease":
			ends, err := strconv.ParseFloat(words[2], 64)
			if err != nil {
				return nil, err
			}
			if strings.HasPrefix(words[3], shared) {
				words[3] = strings.ReplaceAll(words[3], `\`, "\n") // as dump has it
			}
			s.leases[words[1]] = entry{words[3], ends}
		default:
			return nil, fmt.Errorf("what is %.200q?", text)
		}
	}
	if s.run == "" {
		return nil, fmt.Errorf("what is the snapshot %.200q?", text)
	}
	return s, nil
}

func (s *store) clone() *store {
	c := *s
	c.fields, c.leases = maps.Clone(s.fields), maps.Clone(s.leases)
	return &c
}

// register is that of a stripe.
func (s *store) register(stripe string) uint64 {
	n, _ := strconv.ParseUint(s.fields[stripe], 10, 64)
	return n
}

// remembers reports whether s has what was there before: its registers, and no other leases.
func (s *store) remembers(before *store) bool {
	for stripe := range before.fields {
		if isStripe(stripe) && s.register(stripe) < before.register(stripe) {
			return false
		}
	}
	return !s.ahead(before)
}

// ahead reports whether s has something that was not there before.
func (s *store) ahead(before *store) bool {
	for stripe := range s.fields {
		if isStripe(stripe) && s.register(stripe) > before.register(stripe) {
			return true
		}
	}
	for key, e := range s.leases {
		if before.leases[key].value != e.value {
			return true
		}
	}
	return false
}

// isStripe reports whether a field of the registers is one.
func isStripe(field string) bool {
	_, err := strconv.Atoi(field)
	return err == nil
}

// write carries out what a script has called, or a client. It reports whether that is all that it
// can have changed.
func (s *store) write(l line) (known bool) {
	key := ""
	if len(l.args) > 1 {
		key = l.args[1]
	}
	switch l.args[0] {
	case "SET":
		e := entry{value: l.args[2]}
		for i := 3; i < len(l.args); i++ {
			switch strings.ToUpper(l.args[i]) {
			case "PX":
				ms, err := strconv.ParseFloat(l.args[i+1], 64)
				if err != nil {
					return false
				}
				e.ends, i = l.at+ms, i+1
			case "PXAT":
				ms, err := strconv.ParseFloat(l.args[i+1], 64)
				if err != nil {
					return false
				}
				e.ends, i = ms, i+1
			case "KEEPTTL":
				e.ends = s.leases[key].ends
			case "NX": // the caller knows whether it was set
			default:
				return false
			}
		}
		s.leases[key] = e
	case "DEL", "UNLINK":
		for _, key := range l.args[1:] {
			delete(s.leases, key)
			if key == registers {
				s.fields = map[string]string{}
			}
		}
	case "PEXPIRE":
		ms, err := strconv.ParseFloat(l.args[2], 64)
		if e, has := s.leases[key]; has && err == nil {
			e.ends = l.at + ms
			s.leases[key] = e
		}
		return err == nil
	case "HSET", "HSETNX":
		for i := 2; i+1 < len(l.args) && key == registers; i += 2 {
			if _, has := s.fields[l.args[i]]; !has || l.args[0] == "HSET" {
				s.fields[l.args[i]] = l.args[i+1]
			}
		}
	case "HDEL":
		for _, field := range l.args[2:] {
			if key == registers {
				delete(s.fields, field)
			}
		}
	case "FLUSHALL", "FLUSHDB":
		s.fields, s.leases = map[string]string{}, map[string]entry{}
	}
	return true
}
