package similar

// Distance returns the smallest number of insertions, deletions and replacements of
// characters that turn a into b (the Levenshtein distance).
func Distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			replaced := diagonal
			if x[i] != y[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(y)]
}
