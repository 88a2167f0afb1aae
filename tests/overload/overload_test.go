//go:build linux

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/tests/faults/library"
)

func TestMain(m *testing.M) {
	if !isWorker() {
		os.Exit(m.Run())
	}
}

func shortly(t *testing.T) (*campaign, *strings.Builder) {
	text := &strings.Builder{}
	return &campaign{ctx: t.Context(), out: text, ttl: 5 * time.Second, watch: 5 * time.Second, share: 50, beyondShare: 10,
		blamed: library.Fenlock}, text
}

// verdict fails the test with what must never be, and shows the table.
func (c *campaign) verdict(t *testing.T, text *strings.Builder, err error) {
	t.Helper()
	t.Log(text)
	if err != nil {
		t.Error(err)
	}
	for _, wrong := range c.wrong {
		t.Error(wrong)
	}
}

// No lock that is held is lost while servers stand still.
func TestCampaignHeld(t *testing.T) {
	c, text := shortly(t)
	c.verdict(t, text, c.held(5, library.Fenlock, 2, 500, strikes[1:2]))
}

// Nor is one while clients ask for more than the servers can do.
func TestCampaignBeyond(t *testing.T) {
	c, text := shortly(t)
	c.verdict(t, text, c.beyond(3, library.Fenlock, 10, 60, 5*time.Second))
}

// No herd has two holders.
func TestCampaignHerds(t *testing.T) {
	for _, kind := range herds {
		c, text := shortly(t)
		c.verdict(t, text, c.herd(3, library.Fenlock, kind, 10, 2))
	}
}

// A library that locks nothing is noticed in each of them.
func TestBrokenIsNoticed(t *testing.T) {
	c, _ := shortly(t)
	c.blamed = library.Broken
	if err := c.herd(3, library.Broken, herdAlone, 10, 1); err != nil || len(c.wrong) == 0 {
		t.Error("two holders are not noticed: ", err)
	}
}
