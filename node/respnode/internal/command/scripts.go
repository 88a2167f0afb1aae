package command

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/fenlock/fenlock/node/respnode/resp"
)

//go:embed scripts
var scripts embed.FS

// Script is a constant Lua script. Its file says what its keys and arguments are. Its text is
// made when it is first asked for: a program that has this engine may use another.
type Script struct {
	Name string
	made func() (text, sha string)
}

// Text returns what the server is to run.
func (s *Script) Text() string { text, _ := s.made(); return text }

// SHA returns by which name EVALSHA calls it.
func (s *Script) SHA() string { _, sha := s.made(); return sha }

// newScript puts the common texts in where the script, or another of them, asks for them. That
// is not at its top: functions cost time where they are made, needed or not.
//
// A text names the scripts that have to be there with it. So it is a different text when they are:
// they are loaded before it.
func newScript(name string, with ...*Script) *Script {
	return &Script{Name: name, made: sync.OnceValues(func() (text, sha string) {
		text = textOf(name)
		for _, common := range []string{"grant", "release", "renew", "admitted", "register", "promise", "queue", "shared",
			"call"} {
			text = strings.ReplaceAll(text, "--@"+common+"\n", textOf(common))
		}
		for _, s := range with {
			text += "-- " + s.SHA() + "\n"
		}
		sum := sha1.Sum([]byte(text)) // the server's name for a script, not a secret
		return text, hex.EncodeToString(sum[:])
	})}
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

	acquireScript = newScript("acquire", acquiresScript, releasesScript, extendsScript)
	confirmScript = newScript("confirm")
	extendScript  = newScript("extend")
	releaseScript = newScript("release")
	forceScript   = newScript("force")
	// Of several requests.
	acquiresScript = newScript("acquires")
	releasesScript = newScript("releases")
	extendsScript  = newScript("extends")
	// Of those who share a name.
	acquireSharedScript = newScript("acquireshared")
	extendSharedScript  = newScript("extendshared")

	// Operations are the scripts that only admission loads, in this order: who can
	// acquire a lease can release it.
	Operations = []*Script{releaseScript, releasesScript, extendsScript, extendScript, extendSharedScript, forceScript,
		confirmScript, acquiresScript, acquireScript, acquireSharedScript}
)

// askScripts asks which of the operations' scripts are in the cache.
func askScripts() resp.Command {
	command := resp.Command{"SCRIPT", "EXISTS"}
	for _, s := range Operations {
		command = append(command, s.SHA())
	}
	return command
}
