//go:build campaign && !race

package core_test

// campaign: the searches go to their end, which takes minutes (make campaigns).
const campaign = true
