package history

import "testing"

// sharing has two readers at a time, of two tokens, that read the same; a writer that
// lets readers in; and one more that comes back too late.
const sharing = `
	100 acquire 1.1
	110 acquired 1.1 token=10 until=1090
	120 read 1.1 token=10
	130 wrote 1.1 token=10 base=0 value=1
	140 downgrade 1.1
	150 downgraded 1.1
	160 acquire 2.1 shared=true
	170 acquired 2.1 token=11 until=1150
	180 read 2.1 token=11 value=1 shared=true
	200 acquire 3.1 shared=true
	210 acquired 3.1 token=12 until=1190
	220 read 3.1 token=12 value=1 shared=true
	230 read 2.1 token=11 value=1 shared=true
	240 refused 1.1 token=10
	300 release 1.1
	310 released 1.1
	400 acquire 4.1
	500 release 2.1
	510 released 2.1
	600 holds 3.1 until=1600
	610 acquire 2.2 shared=true
	1610 acquired 4.1 token=15 until=2590
	1620 wrote 4.1 token=15 base=1 value=2
	1630 ended 3.1 text=lost
	1640 refused 3.1 token=12 shared=true
	1700 release 4.1
	1705 acquired 2.2 token=16 until=2600
	1710 released 4.1
	1800 release 2.2
	1810 released 2.2
	5000 quiet
	5100 acquire 1.4
	5110 acquired 1.4 token=20 until=6090
	5120 release 1.4
	5130 released 1.4
	5140 acquire 2.4 shared=true
	5150 acquired 2.4 token=21 until=6130
	5160 release 2.4
	5170 released 2.4
	5200 closed client=1
	5210 closed client=2
	9000 end
`

func TestSharedHistories(t *testing.T) {
	r := Check(script(t, "fenlock", sharing))
	wantViolations(t, r.Violations, "", "")
	if r.Acquired != 7 || r.Shared != 4 || r.Beside != 3 || r.Downgraded != 1 {
		t.Errorf("the counts are wrong: %+v", r)
	}
	checkChanged(t, sharing, []changed{
		{"a reader beside a writer", []string{"140", "", "150", "", "240", ""},
			Validity, "client 2 (op 1, token 11) acquires it 70ms after the start, while client 1 (op 1, token 10) has it for another 130ms", []string{Porcupine}},
		{"a reader before the writer lets any in", []string{"140", "171 downgrade 1.1", "150", "175 downgraded 1.1"},
			Validity, "while client 1 (op 1, token 10) has it", []string{Porcupine}},
		{"a writer beside a reader", []string{"600 holds", "600 holds 3.1 until=1612"},
			Validity, "client 4 (op 1, token 15) acquires it 1.51s after the start, while client 3 (op 1, token 12) has it for another 2ms", []string{Porcupine}},
		{"a writer beside one of two readers",
			[]string{"500", "1611 release 2.1", "510", "1612 released 2.1", "600 holds", "600 holds 2.1 until=1612"},
			Validity, "while client 2 (op 1, token 11) has it for another 1ms", []string{Porcupine}},
		{"a writer with a reader's token",
			[]string{"1610", "1610 acquired 4.1 token=12 until=2590", "1620", "1620 wrote 4.1 token=12 base=1 value=2", "1640",
				""},
			Tokens, "both have token 12", []string{Porcupine}},
		{"a reader with the token of a writer that lets others in",
			[]string{"170", "170 acquired 2.1 token=10 until=1150", "180", "", "230", ""},
			Tokens, "both have token 10", nil},
		{"a reader with a writer's token", []string{"1705", "1705 acquired 2.2 token=15 until=2600"},
			Tokens, "both have token 15", []string{Porcupine}},
		{"a reader's token that does not grow",
			[]string{"1705", "1705 acquired 2.2 token=11 until=2600", "610", "1704 acquire 2.2 shared=true", "1700",
				"1701 release 4.1", "1710", "1703 released 4.1"},
			Tokens, "although attempt 4000001 finished with 15 before it began", []string{Porcupine}},
		{"a reader that goes on after a writer", []string{"1630", "1630 extend 3.1", "1640", "1640 extended 3.1"},
			Extension, "attempt 4000001 had acquired it with 15 before that began", nil},
		{"a write under a later reader",
			[]string{"240", "240 wrote 4.1 token=9 base=1 value=2", "400", "100 acquire 4.1", "1610", "", "1620", "", "1640", "",
				"1700", "", "1710", ""},
			Resource, "took a write with token 9 after it was used with 12", []string{Porcupine}},
		{"a read after a later write", []string{"1640", "1640 read 3.1 token=12 value=2 shared=true"},
			Resource, "let a read through with token 12 after it was written with 15", []string{Porcupine}},
		{"a reader that was refused for another one", []string{"230", "230 refused 2.1 token=11 shared=true"},
			Porcupine, "there can be no refuse to look(11) of client 2", nil},
		{"a write of one who shares it", []string{"220", "220 wrote 3.1 token=12 base=1 value=2"},
			Coherence, "client 3 (op 1, token 12) shares the name, and is not to write", nil},
		{"a write of one who let others in", []string{"240", "240 wrote 1.1 token=10 base=1 value=2"},
			Coherence, "shares the name, and is not to write", nil},

		// Those that follow look bad and are not.
		{"a downgrade of which nobody knows whether it was carried", []string{"150", "150 downgraded 1.1 text=no"}, "", "",
			nil},
		{"one that never returned", []string{"150", ""}, "", "", nil},
		{"one of a client that was killed", []string{"150", "", "300", "", "310", ""}, "", "", nil},
		{"readers that tell in another order than they came",
			[]string{"170", "215 acquired 2.1 token=11 until=1150", "180", ""}, "", "", nil},
		{"a reader whose end nobody knows", []string{"1630", "", "1640", ""}, "", "", nil},
	})
}
