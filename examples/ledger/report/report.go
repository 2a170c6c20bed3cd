// Package report writes a ledger for people.
package report

import "fmt"

// Line of a report.
func Line(name string, cents int) string {
	return fmt.Sprintf("%s %d.%02d", name, cents/100, cents%100)
}

// First of several lines.
func First(lines []string) string {
	return lines[0]
}
