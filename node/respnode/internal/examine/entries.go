package examine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/node"
)

// registers finds what is wrong with the record of the group.
func (s Server) registers() (found []node.Finding) {
	key, damage := s.Key, s.Close.Damage
	if len(damage.Bad) > 0 {
		found = append(found, node.Found("registers", node.Error,
			"The registers (the hash %s) have fields that are no numbers (%s): names of these stripes cannot be locked here.",
			key, stripes(damage.Bad)).
			Do("Another program wrote there. Set them to the largest value that the other servers have for them, or end this server, empty it and let it be rebuilt (docs/operations.md)."))
	}
	if len(damage.Large) > 0 {
		found = append(found, node.Found("registers-large", node.Error,
			"The registers (the hash %s) have numbers that no fenlock writes (%s). Clients do not believe them.", key,
			stripes(damage.Large)).
			Do("Another program wrote there. Set them to the largest value that the other servers have for them."))
	}
	return found
}

// entries finds what has the prefix of locks and is none.
func (s Server) entries() (found []node.Finding) {
	var stray, endless []string
	for _, e := range s.Close.Entries {
		switch {
		case e.Endless:
			endless = append(endless, fmt.Sprintf("%.60q", e.Key))
		case e.Other:
			stray = append(stray, fmt.Sprintf("%.60q", e.Key))
		}
	}
	if endless != nil {
		found = append(found, node.Found("endless-key", node.Error,
			"Keys with the prefix of locks have no time to live (%s): on this server these locks are never free.", few(endless)).
			Do("Another program wrote them, or they were written by hand: DEL them if they are not needed, or give the locks another --prefix at all clients."))
	}
	if stray != nil {
		found = append(found, node.Found("stray-key", node.Warning, "Keys with the prefix of locks are not fenlock's (%s). Until they are gone, the locks of these names cannot be taken here.", few(stray)).
			Do("Find out which program writes them. Another Redlock client may: then nothing is wrong. Otherwise give the locks another --prefix at all clients."))
	}
	return found
}

// stripes lists some of many.
func stripes(numbers []int) string {
	var list []string
	for _, n := range numbers {
		list = append(list, strconv.Itoa(n))
	}
	return few(list)
}

// few lists some of many.
func few(list []string) string {
	const most = 3
	if more := len(list) - most; more > 0 {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(list, ", ")
}
