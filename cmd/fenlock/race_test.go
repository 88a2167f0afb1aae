//go:build race

package main

func init() { buildFlags = []string{"-race"} }
