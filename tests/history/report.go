package history

// The promises that are checked.
const (
	Coherence = "history"   // the events fit together
	Validity  = "validity"  // two holders of a name never both believe in it
	Tokens    = "tokens"    // unique per name, and larger for a client that began after another one finished
	Extension = "extension" // one that was carried: no holder with a larger token had it before that began
	Resource  = "resource"  // no stale write was applied, and no update was lost
	Healing   = "healing"   // no lock is lost while a majority of the nodes does what it should
	Following = "following" // a follower goes back to no smaller term, and knows which client has it
	Progress  = "progress"  // once nothing fails any more, every client gets every name
	Leftovers = "leftovers" // no leases on the servers, no goroutines in the clients
	Porcupine = "porcupine" // some order of all operations is one of a fenced mutex
)

// RegistersSurvive is the assumption of the tokens. No fault of a campaign breaks it.
const RegistersSurvive = "a majority of registers survives"

// Report is what Check found. The texts speak of times since Begin.
type Report struct {
	Header     Header
	Begin, End int64    // At of the first event and of the last
	Checked    []string // promises

	Violations []Violation
	Excused    []Violation // while a declared assumption was broken
	Overlaps   []Damage    // of validity, excused or not
	Lost       []Damage    // lost updates
	Faults     map[string]Count
	// Assumptions are those that some fault broke.
	Assumptions []string

	Clients    int // processes
	Acquired   int
	Shared     int // of these, to share the name
	Beside     int // pairs that held a name at the same time, as those who share it may
	Downgraded int // calls
	Followed   int // changes of the leader, as clients saw them
	Failed     int
	Unknown    int // acquisitions of unknown outcome
	Extended   int
	Writes     int
	Refused    int
	Stood      int // times that a node failed the holder of a lock which was not lost by it
	Gone       int // locks that were lost, whatever the reason
	Operations int // that porcupine put into an order
}

// Violation is a promise that was broken.
type Violation struct {
	At         int64
	Promise    string
	Text       string
	Assumption string // whose breach excuses it, "" for none
}

// Damage is an overlap or a lost update, and what may have caused it.
type Damage struct {
	At         int64
	Name       string
	Text       string
	Faults     []string // kinds that were active since the acquisition began that was there first
	Assumption string   // as in Violation
}

// Count is how often a kind of fault struck. One that was noted several times before it
// was healed counts once.
type Count struct {
	All  int
	Held int // noted, at least once, while some lock was held
}
