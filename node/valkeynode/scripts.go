package valkeynode

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strings"
)

// script is a constant Lua script. Its file says what its keys and arguments are.
type script struct {
	name string
	text string
	sha  string
}

// newScript puts the shared texts in where the script asks for them. That is not
// at its top: functions cost time where they are made, needed or not.
func newScript(name, text string) *script {
	text = strings.Replace(text, "--@admitted\n", admittedText, 1)
	text = strings.Replace(text, "--@line\n", lineText, 1)
	sum := sha1.Sum([]byte(text)) // the server's name for a script, not a secret
	return &script{name: name, text: text, sha: hex.EncodeToString(sum[:])}
}

var (
	//go:embed scripts/admitted.lua
	admittedText string
	//go:embed scripts/line.lua
	lineText string
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
	//go:embed scripts/guard.lua
	guardText string

	acquireScript = newScript("acquire", acquireText)
	confirmScript = newScript("confirm", confirmText)
	extendScript  = newScript("extend", extendText)
	releaseScript = newScript("release", releaseText)
	forceScript   = newScript("force", forceText)
	guardScript   = newScript("guard", guardText)

	// operations are the scripts that only admission loads.
	operations = []*script{acquireScript, confirmScript, extendScript, releaseScript, forceScript}
)
