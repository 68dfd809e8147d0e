package similar

import "strings"

// Suggest returns the known name that name most probably misspells, or "" if none is
// similar. Upper and lower case are equal. Names of up to three characters may differ in
// one, longer ones in two.
func Suggest(name string, known []string) string {
	most := 2
	if len([]rune(name)) <= 3 {
		most = 1
	}
	return Within(most, name, known)
}

// Within is [Suggest] for names that differ in that many characters at most.
func Within(most int, name string, known []string) (best string) {
	least := most + 1
	for _, k := range known {
		if d := Distance(strings.ToLower(name), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// Meant returns " (did you mean x?)" for the known name x that name most probably misspells,
// or "" if none is similar.
func Meant(name string, known []string) string {
	if meant := Suggest(name, known); meant != "" {
		return " (did you mean " + meant + "?)"
	}
	return ""
}
