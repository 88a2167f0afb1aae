package nodetest_test

import (
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// keepMutants are wrong about a name that is kept for a waiter, or about a waiter
// that leaves or has failed.
var keepMutants = []lineMutant{
	{"nothing is kept", "KeptNameRefusesOthers", func(n *brokenLines) {
		called(n, func(v *visit, _ string) { v.e.Holder = "" })
	}},
	{"what is kept goes to an earlier one", "KeptNameRefusesOthers", func(n *brokenLines) {
		place(n, func(v *visit, p node.Place) node.Place {
			if v.e.Holder.Reserves() && p.Waiter != "" && len(*v.l) > 0 && p.Stamp < (*v.l)[0].Stamp {
				v.e.Holder = ""
			}
			return p
		})
	}},
	{"the called one is refused too", "KeptNameRefusesOthers", func(n *brokenLines) {
		n.acquire = func(v *visit, p node.Place, acquire acquiring) (said, string) {
			holder := v.e.Holder
			if v.e.Leased(v.now) {
				v.e.Holder = "somebody"
			}
			reply, called := rule.AcquireInLine(v.e, v.l, v.now, p, v.reachable, acquire)
			if reply.Status == node.Held && called == "" {
				v.e.Holder = holder
			}
			return reply, called
		}
	}},
	{"the called one goes by the line again", "KeptNameRefusesOthers", func(n *brokenLines) {
		place(n, func(v *visit, p node.Place) node.Place {
			if v.e.Holder == node.Reserved(p.Waiter) {
				v.e.Holder = ""
			}
			return p
		})
	}},
	{"extend takes what is kept", "KeptNameIsNotTheOldHolders", func(n *brokenLines) {
		n.extend = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, token fence.Token) said {
			if e.Holder.Reserves() {
				e.Holder = ""
			}
			return rule.Extend(e, now, holder, ttl, token)
		}
	}},
	{"confirm of what is kept", "KeptNameIsNotTheOldHolders", func(n *brokenLines) {
		n.confirm = func(e *rule.Entry, now time.Duration, r node.Request) said {
			if e.Holder.Reserves() {
				return rule.Confirm(e, now, e.Holder, r.Token)
			}
			return rule.Confirm(e, now, r.Holder, r.Token)
		}
	}},
	{"anybody releases what is kept", "KeptNameIsNotTheOldHolders", func(n *brokenLines) {
		sound := n.release
		n.release = func(v *visit, holder node.Holder, p node.Place) (said, string) {
			if v.e.Holder.Reserves() {
				holder = v.e.Holder
			}
			return sound(v, holder, p)
		}
	}},
	{"keeping raises the register", "KeepingMovesNoRegister", func(n *brokenLines) {
		called(n, func(v *visit, _ string) { v.e.Register++ })
	}},
	{"asking for what is kept raises the register", "KeepingMovesNoRegister", func(n *brokenLines) {
		place(n, func(v *visit, p node.Place) node.Place {
			if v.e.Holder.Reserves() && v.e.Holder != node.Reserved(p.Waiter) {
				v.e.Register++
			}
			return p
		})
	}},
	{"what is kept has no label", "KeptNameShowsTheNextInLine", func(n *brokenLines) {
		sound := n.broken.label
		n.broken.label = func(holder node.Holder) string {
			if holder.Reserves() {
				return ""
			}
			return sound(holder)
		}
	}},
	{"what is kept shows the waiter", "KeptNameShowsTheNextInLine", func(n *brokenLines) {
		sound := n.broken.label
		n.broken.label = func(holder node.Holder) string {
			if holder.Reserves() {
				return string(holder)
			}
			return sound(holder)
		}
	}},
	{"kept for as long as a lease", "KeepingEnds", func(n *brokenLines) {
		called(n, func(v *visit, _ string) { v.e.Expires = v.now + 2*time.Minute })
	}},
	{"the called one stays in line", "KeepingEnds", func(n *brokenLines) {
		called(n, func(v *visit, waiter string) { v.l.Join(node.Place{Waiter: waiter, Stamp: 1}) })
	}},

	{"leaving is ignored", "LeavingIsFinal", func(n *brokenLines) {
		releasing(n, func(v *visit, _ rule.Entry, line rule.Line, p node.Place, reply said, called string) string {
			if p.Waiter != "" && p.Stamp == 0 && called == "" {
				*v.l = line
			}
			return called
		})
	}},
	{"leaving takes the first out", "LeavingIsFinal", func(n *brokenLines) {
		sound := n.release
		n.release = func(v *visit, holder node.Holder, p node.Place) (said, string) {
			if p.Waiter != "" && p.Stamp == 0 && len(*v.l) > 0 {
				p.Waiter = (*v.l)[0].Waiter
			}
			return sound(v, holder, p)
		}
	}},
	{"leaving frees the name", "LeavingIsFinal", func(n *brokenLines) {
		sound := n.release
		n.release = func(v *visit, holder node.Holder, p node.Place) (said, string) {
			if holder == "" {
				v.e.Holder = ""
			}
			return sound(v, holder, p)
		}
	}},
	{"one who leaves keeps what is kept", "LeavingPassesOnWhatIsKept", func(n *brokenLines) {
		releasing(n, func(v *visit, before rule.Entry, line rule.Line, p node.Place, _ said, called string) string {
			if p.Stamp == 0 && p.Waiter != "" && before.Holder == node.Reserved(p.Waiter) {
				*v.e, *v.l = before, line
				return ""
			}
			return called
		})
	}},
	{"one who leaves passes nothing on", "LeavingPassesOnWhatIsKept", func(n *brokenLines) {
		releasing(n, func(v *visit, before rule.Entry, line rule.Line, p node.Place, _ said, called string) string {
			if p.Stamp == 0 && p.Waiter != "" && called != "" {
				v.e.Holder, *v.l = "", line
				return ""
			}
			return called
		})
	}},
	{"a failed attempt does not join again", "FailedAttemptJoinsAgain", func(n *brokenLines) {
		releasing(n, func(v *visit, _ rule.Entry, _ rule.Line, p node.Place, _ said, called string) string {
			v.l.Leave(p.Waiter)
			return called
		})
	}},
	{"a failed attempt calls itself", "FailedAttemptJoinsAgain", func(n *brokenLines) {
		releasing(n, func(v *visit, before rule.Entry, _ rule.Line, p node.Place, reply said, called string) string {
			if called == "" && reply.Status == node.Granted && p.Stamp != 0 {
				_, called = rule.ForceReleaseInLine(v.e, v.l, v.now, v.reachable, func(*rule.Entry) said { return said{Status: node.Granted} })
			}
			return called
		})
	}},
	{"a failed attempt joins again if it had the lease", "FailedAttemptJoinsAgain", func(n *brokenLines) {
		releasing(n, func(v *visit, _ rule.Entry, line rule.Line, p node.Place, reply said, called string) string {
			if reply.Status == node.Lost && p.Stamp != 0 {
				*v.l = line
			}
			return called
		})
	}},
	{"a failed attempt calls nobody", "FailedAttemptCallsAnEarlierOne", func(n *brokenLines) {
		sound := n.release
		n.release = func(v *visit, holder node.Holder, p node.Place) (said, string) {
			if p.Stamp == 0 {
				return sound(v, holder, p)
			}
			reply := rule.Release(v.e, v.now, holder)
			v.l.Join(p)
			return reply, ""
		}
	}},
	{"a failed attempt joins again at the end", "FailedAttemptCallsAnEarlierOne", func(n *brokenLines) {
		sound := n.release
		n.release = func(v *visit, holder node.Holder, p node.Place) (said, string) {
			if p.Stamp != 0 {
				p.Stamp = 1 << 53
			}
			return sound(v, holder, p)
		}
	}},
	{"a failed attempt keeps what is kept", "FailedAttemptGivesUpWhatIsKept", func(n *brokenLines) {
		releasing(n, func(v *visit, before rule.Entry, _ rule.Line, p node.Place, _ said, called string) string {
			if p.Stamp != 0 && before.Holder == node.Reserved(p.Waiter) {
				*v.e = before
				return ""
			}
			return called
		})
	}},
	{"a failed attempt passes nothing on", "FailedAttemptGivesUpWhatIsKept", func(n *brokenLines) {
		releasing(n, func(v *visit, before rule.Entry, line rule.Line, p node.Place, reply said, called string) string {
			if p.Stamp != 0 && reply.Status == node.Lost && called != "" {
				v.e.Holder, *v.l = "", line
				v.l.Join(p)
				return ""
			}
			return called
		})
	}},
}
