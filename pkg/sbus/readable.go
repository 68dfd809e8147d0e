package sbus

import (
	"regexp"
	"strings"
)

// answer is how go-amqp prints an answer of the broker.
var answer = regexp.MustCompile(`(?s)\*Error\{Condition: ([^,}]*)(?:, Description: (.*?), Info: (?:map\[.*?\]|<nil>))?\}`)

// Readable returns an error that wraps err, and whose text has each answer of the broker as its
// description with the condition in parentheses, instead of as a value of Go.
func Readable(err error) error {
	if err == nil || !answer.MatchString(err.Error()) {
		return err
	}
	return readable{err}
}

type readable struct{ error }

func (e readable) Error() string {
	return answer.ReplaceAllStringFunc(e.error.Error(), func(text string) string {
		found := answer.FindStringSubmatch(text)
		condition, description := found[1], strings.TrimRight(strings.TrimSpace(found[2]), ".")
		if description == "" {
			return condition
		}
		return description + " (" + condition + ")"
	})
}

func (e readable) Unwrap() error { return e.error }
