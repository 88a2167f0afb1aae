package main

import (
	"os"
	"path/filepath"

	"github.com/fenlock/fenlock/tools/internal/docs"
)

// checkLinks looks whether every link into the repository leads somewhere, and its anchor too.
func (c *checker) checkLinks(d *docs.Document) {
	for _, link := range d.Links() {
		file, anchor, ok := docs.Local(d.Path, link.Target)
		if !ok {
			continue
		}
		c.links++
		if _, err := os.Stat(filepath.Join(c.root, filepath.FromSlash(file))); err != nil {
			c.wrong(d, link.Line, "the link to %s leads nowhere", link.Target)
			continue
		}
		if to := c.found[file]; anchor != "" && to != nil && !to.HasAnchor(anchor) {
			c.wrong(d, link.Line, "the link to %s: %s has no heading of that name", link.Target, file)
		}
	}
}
