package project

// Average returns the mean of the values, and 0 without any.
func Average(values []int) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0
	for _, value := range values {
		sum += value
	}
	return float64(sum / len(values))
}
