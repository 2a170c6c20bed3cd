package project

// Gcd returns the greatest common divisor of two positive numbers.
func Gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return b
}
