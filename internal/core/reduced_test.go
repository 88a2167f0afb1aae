//go:build !campaign || race

package core_test

// campaign, see campaign_test.go: without it, each search is a part of itself, of some seconds. The
// race detector makes a search about ten times slower.
const campaign = false
