// Package kinds is the table of kinds of faults. It says what each does to the servers, the
// network, the clocks or the clients, and which assumption that breaks. To add a kind is to add an
// entry: schedules, reports and comparisons go by the table.
package kinds
