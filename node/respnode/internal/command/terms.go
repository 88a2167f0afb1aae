package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Terms asks for what is recorded of the group, and for the mark of admission.
func (k *Keys) Terms() resp.Command {
	return resp.Command{"HMGET", k.registers, "maxttl", "members", "admitted"}
}

// ParseTerms reads the reply to Terms.
func ParseTerms(reply resp.Reply) (t admit.Terms, mark string, err error) {
	fields, err := reply.AsStrSlice()
	if err == nil && len(fields) != 3 {
		err = fmt.Errorf("unexpected reply of %d values", len(fields))
	}
	if err != nil {
		return t, "", err
	}
	t, err = termsOf(fields[0], fields[1])
	return t, fields[2], err
}

// termsOf reads the two fields. What is no longest lease is not taken for none, as if the server
// were new.
func termsOf(maxTTL, members string) (admit.Terms, error) {
	if maxTTL == "" {
		return admit.Terms{Members: members}, nil
	}
	ms, err := strconv.ParseInt(maxTTL, 10, 64)
	if err != nil || ms < 1 || ms > mostRemaining.Milliseconds() || strconv.FormatInt(ms, 10) != maxTTL {
		return admit.Terms{}, quoteValue(engine.Misconfiguredf("the group's MaxTTL, as recorded on this server, is no number of milliseconds: set the field %q of the registers' hash right", "maxttl"), maxTTL)
	}
	return admit.Terms{MaxTTL: time.Duration(ms) * time.Millisecond, Members: members}, nil
}

func sorted(members string) []string { return slices.Sorted(strings.FieldsSeq(members)) }
