//go:build race

package sim

// race: everything takes several times as long.
const race = true
