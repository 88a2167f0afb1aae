package nodetest_test

import (
	"time"

	"github.com/fenlock/fenlock/node"
)

// reserveMutants do something wrong with a name that is reserved for a waiter, or with
// one who gives that up.
var reserveMutants = []mutant{
	{"nothing is reserved", "ReservedNameRefusesOthers", notifying(func(s *served) { s.Holder = "" })},
	{"what is reserved goes to an earlier one", "ReservedNameRefusesOthers", acquiring(func(s *served) {
		if p := s.r.Place; s.Holder.Reserves() && p.Waiter != "" && len(s.q.Waiters) > 0 && p.Stamp < s.q.Waiters[0].Stamp {
			s.Holder = ""
		}
	})},
	{"the notified one is refused too", "ReservedNameRefusesOthers", around(func(s *served) {
		if s.Leased(s.now) {
			s.Holder = "somebody"
		}
	}, func(s *served) {
		if s.a.Status == node.Held && s.notify == "" {
			s.Holder = s.was.Holder
		}
	}, node.Acquire)},
	{"the notified one goes by the queue again", "ReservedNameRefusesOthers", acquiring(func(s *served) {
		if s.Holder == node.Reserved(s.r.Place.Waiter) {
			s.Holder = ""
		}
	})},
	{"extend respects what is reserved", "ReservedNameGivesWayToAnExtension", before(func(s *served) {
		if s.Holder.Reserves() {
			s.Holder = "somebody"
		}
	}, node.Extend)},
	{"confirm of what is reserved", "ReservedNameIsNotTheOldHolders", before(asReserved, node.Confirm)},
	{"anybody releases what is reserved", "ReservedNameIsNotTheOldHolders", before(asReserved, node.Release)},
	{"a reservation raises the register", "ReservingMovesNoRegister", notifying(func(s *served) { s.Register++ })},
	{"asking for what is reserved raises the register", "ReservingMovesNoRegister", acquiring(func(s *served) {
		if s.Holder.Reserves() && s.Holder != node.Reserved(s.r.Place.Waiter) {
			s.Register++
		}
	})},
	{"what is reserved has no label", "ReservedNameShowsTheNextInQueue",
		labelling(func(node.Holder) string { return "" })},
	{"what is reserved shows the waiter", "ReservedNameShowsTheNextInQueue",
		labelling(func(holder node.Holder) string { return string(holder) })},
	{"reserved for as long as a lease", "ReservationEnds",
		notifying(func(s *served) { s.Expires = s.now + 2*time.Minute })},
	{"the notified one stays in the queue", "ReservationEnds",
		notifying(func(s *served) { s.q.join(node.Place{Waiter: s.notify, Stamp: 1}) })},

	{"leaving is ignored", "LeavingIsFinal", releasing(func(s *served) {
		if s.leaves() && s.notify == "" {
			s.q.Waiters = s.waiting
		}
	})},
	{"leaving takes the first out", "LeavingIsFinal", before(func(s *served) {
		if s.leaves() && len(s.q.Waiters) > 0 {
			s.r.Place.Waiter = s.q.Waiters[0].Waiter
		}
	}, node.Release)},
	{"leaving frees the name", "LeavingIsFinal", before(func(s *served) {
		if s.r.Holder == "" {
			s.Holder = ""
		}
	}, node.Release)},
	{"one who leaves keeps what is reserved", "LeavingPassesOnWhatIsReserved", releasing(func(s *served) {
		if s.leaves() && s.had() {
			*s.Entry, s.q.Waiters, s.notify = s.was, s.waiting, ""
		}
	})},
	{"one who leaves passes nothing on", "LeavingPassesOnWhatIsReserved", releasing(func(s *served) {
		if s.leaves() && s.notify != "" {
			s.Holder, s.q.Waiters, s.notify = "", s.waiting, ""
		}
	})},
	{"a failed attempt does not join again", "FailedAttemptIsQueuedAgain",
		releasing(func(s *served) { s.q.Remove(s.r.Place.Waiter) })},
	{"a failed attempt notifies itself", "FailedAttemptIsQueuedAgain", releasing(func(s *served) {
		if s.notify == "" && s.a.Status == node.Granted && s.r.Place.Stamp != 0 {
			s.notifyFirst()
		}
	})},
	{"a failed attempt joins again if it had the lease", "FailedAttemptIsQueuedAgain", releasing(func(s *served) {
		if s.a.Status == node.Lost && s.r.Place.Stamp != 0 {
			s.q.Waiters = s.waiting
		}
	})},
	{"a failed attempt notifies nobody", "FailedAttemptNotifiesAnEarlierOne", before(func(s *served) {
		if s.r.Place.Stamp != 0 {
			s.as = headless{s.q}
		}
	}, node.Release)},
	{"a failed attempt joins again at the end", "FailedAttemptNotifiesAnEarlierOne", before(func(s *served) {
		if s.r.Place.Stamp != 0 {
			s.r.Place.Stamp = 1 << 53
		}
	}, node.Release)},
	{"a failed attempt keeps what is reserved", "FailedAttemptGivesUpWhatIsReserved", releasing(func(s *served) {
		if s.r.Place.Stamp != 0 && s.had() {
			*s.Entry, s.notify = s.was, ""
		}
	})},
	{"a failed attempt passes nothing on", "FailedAttemptGivesUpWhatIsReserved", releasing(func(s *served) {
		if s.r.Place.Stamp != 0 && s.a.Status == node.Lost && s.notify != "" {
			s.Holder, s.q.Waiters, s.notify = "", s.waiting, ""
			s.q.join(s.r.Place)
		}
	})},
}

// asReserved makes a request that of the waiter that the name is reserved for.
func asReserved(s *served) {
	if s.Holder.Reserves() {
		s.r.Holder = s.Holder
	}
}

// labelling labels what is reserved in another way.
func labelling(label func(node.Holder) string) func(*broken) {
	return func(n *broken) {
		n.label = func(holder node.Holder) string {
			if holder.Reserves() {
				return label(holder)
			}
			return holder.Label()
		}
	}
}

// leaves reports whether a release says that the wait is over.
func (s *served) leaves() bool { return s.r.Place.Waiter != "" && s.r.Place.Stamp == 0 }

// had reports whether the name was reserved for the waiter that releases.
func (s *served) had() bool { return s.was.Holder == node.Reserved(s.r.Place.Waiter) }
