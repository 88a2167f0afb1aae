package resp

import "testing"

// A password that was changed is still kept out of what comes late.
func TestSecretsOfEarlierConnections(t *testing.T) {
	s := NewSecrets("one")
	for _, next := range []string{"two", "three", "three", "", "four"} {
		s.Add(next)
	}
	for words, want := range map[string]bool{"is one": true, "four": true, "": false, "five": false} {
		if got := s.In(words); got != want {
			t.Errorf("%q: %v", words, got)
		}
	}
	s.Add("five")
	if s.In("is one") || !s.In("two") || len(s.newest) != maxSecrets {
		t.Errorf("there are %d", len(s.newest))
	}
}
