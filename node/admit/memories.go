package admit

import "strings"

// The names of memories in one text are separated by spaces. Those that a name has are written as
// %20, and its percent signs as %25.
var (
	escaped   = strings.NewReplacer("%", "%25", " ", "%20")
	unescaped = strings.NewReplacer("%25", "%", "%20", " ")
)

// TextOfMemories returns memories, as in node.Registers.Empty, as a text that a store records.
func TextOfMemories(memories []string) string {
	all := make([]string, len(memories))
	for i, memory := range memories {
		all[i] = escaped.Replace(memory)
	}
	return strings.Join(all, " ")
}

// MemoriesOf returns the memories of a text of TextOfMemories. Of any other text it returns some.
func MemoriesOf(text string) (memories []string) {
	for memory := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' }) {
		memories = append(memories, unescaped.Replace(memory))
	}
	return memories
}
