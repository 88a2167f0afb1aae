package shell

import "time"

// Options are what one acquisition is made with: what an option of package fenlock changes. It is
// here for the packages beside that one, which have options of their own.
type Options struct {
	Terms  Terms
	Wait   time.Duration
	Waits  bool // no longer than Wait
	Failed error
}
