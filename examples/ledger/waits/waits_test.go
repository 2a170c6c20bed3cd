// Package waits has a test that never ends: a limit of time has to.
package waits

import "testing"

func TestFirst(t *testing.T) {}

func TestForEver(t *testing.T) {
	for {
	}
}
