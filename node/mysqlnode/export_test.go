package mysqlnode

// BeforeWrite has f called before each row is written, once it was read.
func (n *Node) BeforeWrite(f func()) { n.beforeWrite = f }
