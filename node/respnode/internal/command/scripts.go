package command

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed scripts
var scripts embed.FS

// Script is a constant Lua script. Its file says what its keys and arguments are.
type Script struct {
	Name string
	Text string
	SHA  string // by which EVALSHA names it
}

// newScript puts the common texts in where the script, or another of them, asks for them. That
// is not at its top: functions cost time where they are made, needed or not.
func newScript(name string) *Script {
	text := textOf(name)
	for _, common := range []string{"admitted", "register", "promise", "queue", "shared", "call"} {
		text = strings.ReplaceAll(text, "--@"+common+"\n", textOf(common))
	}
	sum := sha1.Sum([]byte(text)) // the server's name for a script, not a secret
	return &Script{Name: name, Text: text, SHA: hex.EncodeToString(sum[:])}
}

func textOf(name string) string {
	text, err := scripts.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err) // it was there when this was compiled
	}
	return string(text)
}

var (
	// Guard is the script of a guard. It runs where the data is, so that it is not
	// one of Operations.
	Guard = newScript("guard")

	admitText, noticeText = textOf("admit"), textOf("notice")

	acquireScript = newScript("acquire")
	confirmScript = newScript("confirm")
	extendScript  = newScript("extend")
	releaseScript = newScript("release")
	forceScript   = newScript("force")
	// Of those who share a name.
	acquireSharedScript = newScript("acquireshared")
	extendSharedScript  = newScript("extendshared")

	// Operations are the scripts that only admission loads, in this order: who can
	// acquire a lease can release it.
	Operations = []*Script{releaseScript, extendScript, extendSharedScript, forceScript, confirmScript, acquireScript, acquireSharedScript}
)
