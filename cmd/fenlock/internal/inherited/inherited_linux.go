package inherited

import (
	"os"
	"strconv"
	"strings"
)

// untouched returns the signals that are ignored now.
func untouched() signals {
	status, _ := os.ReadFile("/proc/self/status")
	_, text, _ := strings.Cut(string(status), "\nSigIgn:")
	text, _, _ = strings.Cut(text, "\n")
	set, _ := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
	return signals(set)
}
