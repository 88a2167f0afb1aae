package command

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strings"
)

// Script is a constant Lua script. Its file says what its keys and arguments are.
type Script struct {
	Name string
	Text string
	SHA  string // by which EVALSHA names it
}

// newScript puts the shared texts in where the script asks for them. That is not
// at its top: functions cost time where they are made, needed or not.
func newScript(name, text string) *Script {
	text = strings.Replace(text, "--@admitted\n", admittedText, 1)
	text = strings.Replace(text, "--@queue\n", queueText, 1)
	sum := sha1.Sum([]byte(text)) // the server's name for a script, not a secret
	return &Script{Name: name, Text: text, SHA: hex.EncodeToString(sum[:])}
}

var (
	//go:embed scripts/admitted.lua
	admittedText string
	//go:embed scripts/queue.lua
	queueText string
	//go:embed scripts/acquire.lua
	acquireText string
	//go:embed scripts/confirm.lua
	confirmText string
	//go:embed scripts/extend.lua
	extendText string
	//go:embed scripts/release.lua
	releaseText string
	//go:embed scripts/force.lua
	forceText string
	//go:embed scripts/admit.lua
	admitText string
	//go:embed scripts/notice.lua
	noticeText string

	// Guard is the script of a guard. It runs where the data is, so that it is not
	// one of Operations.
	//
	//go:embed scripts/guard.lua
	Guard string

	acquireScript = newScript("acquire", acquireText)
	confirmScript = newScript("confirm", confirmText)
	extendScript  = newScript("extend", extendText)
	releaseScript = newScript("release", releaseText)
	forceScript   = newScript("force", forceText)

	// Operations are the scripts that only admission loads.
	Operations = []*Script{acquireScript, confirmScript, extendScript, releaseScript, forceScript}
)
