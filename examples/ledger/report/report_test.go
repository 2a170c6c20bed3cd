package report

import "testing"

func TestLine(t *testing.T) {
	if got := Line("tea", 205); got != "tea 2.05" {
		t.Fatal(got)
	}
}

func TestFirstOfNone(t *testing.T) {
	First(nil)
}
