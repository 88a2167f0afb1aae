//go:build campaign && !race

package sim

// campaign: all variants that are broken, thousands of seeds, which takes minutes (make campaigns).
const campaign = true
