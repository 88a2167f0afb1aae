package command

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/resp"
	"github.com/fenlock/fenlock/node/rule"
)

// Parse reads the reply of an operation's script. NotAdmitted means that the script
// says so, or is not there, and that nothing was executed.
func Parse(r *node.Request, message resp.Reply, err error) (answer node.Answer, notAdmitted bool, _ error) {
	if err == nil {
		err = message.Err()
	}
	if IsNoScript(err) {
		return answer, true, nil // nothing was executed
	}
	if err != nil {
		return answer, false, err
	}
	switch {
	case message.IsNumber():
		answer.Status = node.Granted
		answer.Register, err = register(message)
		if r.Op == node.Release {
			answer.Register = 0 // what it returns is no register
		}
		return answer, false, err
	case message.IsList():
		return parseRefusal(r, message)
	}
	text, err := message.ToString()
	if err != nil {
		return answer, false, err
	}
	if limit, ok := strings.CutPrefix(text, "maxttl "); ok {
		return answer, false, quoteValue(engine.Misconfiguredf(
			"the group's longest lease is recorded, and a longer one was asked for: all clients must agree on MaxTTL"),
			limit+" ms")
	}
	switch text {
	case "rejoining":
		return answer, true, nil
	case "lost":
		return node.Answer{Status: node.Lost}, false, nil
	}
	return answer, false, quoteValue(errors.New("unexpected reply"), text)
}

func parseRefusal(r *node.Request, message resp.Reply) (answer node.Answer, notAdmitted bool, err error) {
	values, err := message.ToList()
	if err != nil {
		return answer, false, err
	}
	if r.Op == node.Confirm && len(values) == 1 { // {register}
		answer.Status = node.Outrun
		answer.Register, err = register(values[0])
		return answer, false, err
	}
	if r.Op != node.Acquire || len(values) != 4 { // {holder, remaining ms, ahead, clock in µs}
		return answer, false, fmt.Errorf("unexpected reply of %d values", len(values))
	}
	value, _ := values[0].ToString()
	holder, origin, _ := splitValue(value, maxHolder)
	var numbers [3]int64
	for i := range numbers {
		if numbers[i], err = values[i+1].AsInt64(); err != nil {
			return answer, false, err
		}
	}
	var given fence.Token
	if r.Place.Waiter != "" && holder == node.Given(r.Place.Waiter, origin) {
		given = origin
	}
	return node.Answer{
		Status:    node.Held,
		Given:     given,
		HeldBy:    holder.Label(),
		Holder:    holder.Fingerprint(),
		Slots:     holder.Slots(),
		Remaining: time.Duration(bound(numbers[0], mostRemaining.Milliseconds())) * time.Millisecond,
		Ahead:     int(bound(numbers[1], rule.MaxQueue)),
		Clock:     time.Duration(bound(numbers[2], mostClock)) * time.Microsecond,
	}, false, nil
}

// register reads a register. One that is no token would be remembered as the
// largest seen, and no proposal would be valid from then on.
func register(message resp.Reply) (fence.Token, error) {
	n, err := message.AsInt64()
	if err == nil && (n < 0 || n > int64(fence.MaxToken)) {
		return 0, fmt.Errorf("the register, or the lease's origin, %d is no token: it was changed by hand", n)
	}
	return fence.Token(n), err
}

// IsNoScript reports whether a script was not executed, because the server does not have
// it.
func IsNoScript(err error) bool {
	reply, ok := resp.IsError(err)
	return ok && strings.HasPrefix(reply.Error(), "NOSCRIPT")
}
