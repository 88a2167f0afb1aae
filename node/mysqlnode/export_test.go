package mysqlnode

import "time"

// BeforeWrite has f called before each row is written, once it was read.
func (n *Node) BeforeWrite(f func()) { n.beforeWrite = f }

// LongestSilence is how long the server may take to answer a listener.
func (n *Node) LongestSilence(d time.Duration) { n.silence = d }
