package check

import (
	"strings"
	"testing"
	"time"
)

// Every checker sees a bad history made by hand, and nothing in the good one
// beside it.

func want(t *testing.T, violation, text string) {
	t.Helper()
	if text == "" && violation != "" || text != "" && !strings.Contains(violation, text) {
		t.Errorf("got %q; want %q", violation, text)
	}
}

func TestValidityCheck(t *testing.T) {
	c := NewValidity(2)
	want(t, c.Begins(0, 1, 10, 0, 100), "")
	want(t, c.Begins(1, 2, 10, 50, 150), "")
	want(t, c.Extended(0, 1, 60, 160), "")
	if !c.Held(159) || c.Held(160) {
		t.Error("held is wrong")
	}
	want(t, c.Begins(0, 3, 11, 160, 260), "")
	want(t, c.Begins(0, 4, 12, 259, 300), "attempt 3 holds it with token 11 for another 1ns")
	c = NewValidity(1)
	c.Begins(0, 1, 10, 0, 100)
	c.Ends(0, 1)
	want(t, c.Begins(0, 2, 11, 50, 150), "")
	want(t, c.Extended(0, 1, 60, 200), "a lock that has ended")
	c = NewValidity(1)
	c.Begins(0, 1, 10, 0, 100)
	want(t, c.Extended(0, 1, 100, 200), "a lock that has ended")
}

func TestTokenCheck(t *testing.T) {
	c := NewTokens(2)
	want(t, c.Acquired(0, 1, 10, 0, 5), "")
	want(t, c.Acquired(1, 2, 10, 0, 6), "")
	want(t, c.Acquired(0, 3, 12, 4, 7), "")
	want(t, c.Acquired(0, 4, 11, 6, 8), "") // began before attempt 3 finished
	want(t, c.Acquired(0, 5, 11, 6, 9), "both have token 11")
	want(t, c.Acquired(0, 6, 9, 8, 10), "attempt 3 finished with 12 before")
	want(t, c.Acquired(0, 7, 9, 5, 11), "both have token 9")

	want(t, c.Extended(0, 1, 10, 7), "")
	want(t, c.Extended(0, 1, 10, 8), "attempt 3 had acquired it with 12")
	want(t, c.Extended(0, 3, 12, 100), "")
	want(t, c.Extended(1, 2, 10, 100), "")
}

func TestTokenCheckOfReaders(t *testing.T) {
	c := NewTokens(1)
	want(t, c.AcquiredShared(0, 1, 10, 0, 5), "")
	want(t, c.AcquiredShared(0, 2, 10, 6, 7), "")
	want(t, c.Adopted(0, 3, 1, 10, 7), "")
	want(t, c.Acquired(0, 4, 10, 8, 9), "both have token 10")
	want(t, c.Acquired(0, 5, 11, 8, 9), "")
	c.Shares(0, 5)
	want(t, c.AcquiredShared(0, 6, 12, 10, 11), "")
	want(t, c.Extended(0, 5, 11, 12), "")
	want(t, c.Adopted(0, 7, 5, 11, 12), "")
	want(t, c.AcquiredShared(0, 8, 11, 8, 13), "both have token 11") // attempt 5 had the name alone
}

func TestUpdateCheck(t *testing.T) {
	c := NewUpdates(2)
	c.Read(0, 5)
	want(t, c.Wrote(0, 5, 0, 1), "")
	c.Read(0, 6)
	want(t, c.Wrote(0, 5, 1, 2), "token 5 after it was used with 6")
	c.Read(1, 5)
	want(t, c.Wrote(1, 6, 0, 1), "")
	want(t, c.Wrote(1, 6, 0, 1), "updates are lost")
	want(t, c.Read(1, 5), "a read through with token 5 after it was used with 6")

	// Readers are in no order among themselves, but in one with writers.
	want(t, c.ReadShared(1, 9), "")
	want(t, c.ReadShared(1, 7), "")
	want(t, c.ReadShared(1, 5), "token 5 after it was written with 6")
	want(t, c.Wrote(1, 8, 1, 2), "token 8 after it was used with 9")
	want(t, c.Read(1, 8), "token 8 after it was used with 9")
}

func TestProgressCheck(t *testing.T) {
	c := NewProgress(2, 10, 100)
	c.Begins(0, 0)
	want(t, c.Served(0, 99), "")
	c.Begins(0, 50)
	want(t, c.Served(0, 110), "")
	c.Begins(0, 50)
	want(t, c.Served(0, 111), "has waited for 11ns")
	c.Begins(1, 105)
	want(t, c.Finish(115), "client 1 still waits")
	c.Ends(1)
	want(t, c.Finish(115), "")
}

func TestHealingCheck(t *testing.T) {
	const lost = "although a majority of the nodes has answered its client for"
	for name, c := range map[string]struct {
		happens func(c *Healing)
		at      time.Duration
		want    string
	}{
		"nothing":         {func(c *Healing) {}, 1000, lost},
		"a minority goes": {func(c *Healing) { c.Missed(0, 900, 900); c.Missed(1, 1000, 1000) }, 1000, lost},
		"a majority goes": {func(c *Healing) { c.Missed(0, 951, 951); c.Missed(1, 1000, 1000); c.Missed(2, 1000, 1000) },
			1099, ""},
		"it went long ago": {func(c *Healing) { c.Missed(0, 900, 900); c.Missed(1, 900, 900); c.Missed(2, 900, 900) },
			1100, lost},
		"it went not so long": {func(c *Healing) { c.Missed(0, 900, 900); c.Missed(1, 900, 900); c.Missed(2, 900, 900) },
			1099, ""},
		"one after the other": {func(c *Healing) {
			c.Missed(0, 800, 800)
			c.Missed(1, 900, 900)
			c.Missed(2, 950, 950)
			c.Missed(3, 1000, 1000)
		}, 1000, lost},
		"too fast, heard of late": {func(c *Healing) { c.Missed(0, 900, 900); c.Missed(1, 900, 900); c.Missed(2, 949, 999) },
			1099, ""},
		"slower, heard of late": {func(c *Healing) { c.Missed(0, 900, 900); c.Missed(1, 900, 900); c.Missed(2, 950, 999) },
			1100, lost},
		"too fast one by one": {func(c *Healing) { c.Missed(0, 960, 960); c.Missed(1, 970, 970); c.Missed(2, 1000, 1000) },
			1000, ""},
		"young when one goes": {func(c *Healing) { c.Begins(2, 951); c.Missed(0, 1000, 1000) }, 1000, ""},
		"old when one goes":   {func(c *Healing) { c.Begins(2, 950); c.Missed(0, 1000, 1000) }, 1000, lost},
		"young when one went": {func(c *Healing) { c.Begins(2, 901); c.Missed(0, 950, 1000) }, 1000, ""},
		"one went long ago": {func(c *Healing) { c.Missed(0, 800, 951); c.Missed(1, 900, 1000); c.Missed(2, 900, 1000) },
			1099, ""},
		"the young one is out": {func(c *Healing) { c.Begins(2, 999); c.Ends(2, false, 999); c.Missed(0, 1000, 1000) }, 1000,
			lost},
		"absent":          {func(c *Healing) { c.Absent(900) }, 1049, ""},
		"absent long ago": {func(c *Healing) { c.Absent(900) }, 1100, lost},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHealing(5, 3, 100)
			h.Begins(1, 100)
			c.happens(&h)
			given := h
			want(t, given.Ends(1, true, c.at), c.want)
			want(t, h.Ends(1, false, c.at), "")
		})
	}
}
