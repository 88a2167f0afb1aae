//go:build !campaign || race

package sim

// campaign, see campaign_test.go: without it, hundreds of seeds, and of the broken variants those
// that are noticed soon.
const campaign = false
