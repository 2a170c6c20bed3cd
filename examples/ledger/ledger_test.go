package ledger

import (
	"fmt"
	"testing"
)

func TestSum(t *testing.T) {
	if got := Sum([]int{1, 2, 3}); got != 6 {
		t.Fatalf("got %d", got)
	}
}

func TestAverage(t *testing.T) {
	for name, row := range map[string]struct {
		entries []int
		want    int
	}{
		"even":     {[]int{2, 4}, 3},
		"rounds":   {[]int{1, 2, 2}, 2},
		"of equal": {[]int{5, 5}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Average(row.entries)
			if err != nil || got != row.want {
				t.Errorf("got %d, %v, want %d", got, err, row.want)
			}
		})
	}
}

func TestOfNothing(t *testing.T) {
	if _, err := Average(nil); err != ErrEmpty {
		t.Fatal(err)
	}
}

func TestYears(t *testing.T) {
	t.Skip("needs last year's books")
}

func ExampleSum() {
	fmt.Println(Sum([]int{1, 2}))
	// Output: 3
}
