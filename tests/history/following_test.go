package history

import "testing"

// led has two leaders, one after the other, and two who follow them.
const led = good + `
	115 follows client=1 name=a token=10 text=client_1
	600 follows client=2 name=a text=
	605 follows client=2 name=a token=11 text=client_2
	700 follows client=1 name=a token=11 text=client_2
	1650 follows client=1 name=a
	1660 follows client=1 name=a token=11 text=client_2
	1705 follows client=2 name=a token=13 text=client_3
	1710 follows client=1 name=a token=14 text=client_1
	5112 follows client=2 name=a token=20 text=client_1
`

func TestFollowing(t *testing.T) {
	check := func(text string) Report {
		h := script(t, "fenlock", text)
		h.Header.Locks = "lead"
		return Check(h)
	}
	r := check(led)
	wantViolations(t, r.Violations, "", "")
	if r.Followed != 9 {
		t.Errorf("%d were seen, of 9", r.Followed)
	}
	for name, test := range map[string]struct {
		change []string
		text   string
	}{
		"backwards": {[]string{"1660", "1720 follows client=1 name=a token=11 text=client_2"},
			"client 1, 1.62s after the start: it follows the term 11, after 14"},
		"backwards by way of nobody": {[]string{"1710 follows", "1640 follows client=1 name=a token=14 text=client_1"},
			"it follows the term 11, after 14"},
		"the wrong one": {[]string{"605", "605 follows client=2 name=a token=11 text=client_1"},
			`it takes "client 1" for the leader with the term 11, which is client 2 (op 1, token 11)'s`},
		"one that has not stood yet": {[]string{"5112", "5050 follows client=2 name=a token=20 text=client_1"},
			"it follows client 1 (op 4, token 20) before that stood"},
	} {
		t.Run(name, func(t *testing.T) {
			wantViolations(t, check(change(t, led, test.change...)).Violations, Following, test.text)
		})
	}
}
