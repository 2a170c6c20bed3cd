package project

import "testing"

func TestCommon(t *testing.T) {
	if got := Gcd(12, 18); got != 6 {
		t.Errorf("Gcd(12, 18) = %d, want 6", got)
	}
}

func TestNone(t *testing.T) {
	if got := Gcd(7, 5); got != 1 {
		t.Errorf("Gcd(7, 5) = %d, want 1", got)
	}
}

func TestEqual(t *testing.T) {
	if got := Gcd(9, 9); got != 9 {
		t.Errorf("Gcd(9, 9) = %d, want 9", got)
	}
}
