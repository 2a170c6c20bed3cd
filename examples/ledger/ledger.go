// Package ledger adds up money: a small module with a bug.
package ledger

import "errors"

// ErrEmpty says that there is nothing to take an average of.
var ErrEmpty = errors.New("no entries")

// Sum of all entries, in cents.
func Sum(entries []int) int {
	sum := 0
	for _, entry := range entries {
		sum += entry
	}
	return sum
}

// Average of all entries, rounded to the nearest cent. The bug: it is rounded down.
func Average(entries []int) (int, error) {
	if len(entries) == 0 {
		return 0, ErrEmpty
	}
	return Sum(entries) / len(entries), nil
}
