//go:build race

package command

func init() { buildFlags = []string{"-race"} }
